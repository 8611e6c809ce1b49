"""The pytest fixture of the local E2B; a plugin, so it imports nothing that it does not need."""

from __future__ import annotations

import importlib.util
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sandboxio_testing.e2b import LocalE2B

__all__ = ["local_e2b", "local_e2b_server"]


@pytest.fixture(scope="session")
def local_e2b_server() -> Generator[LocalE2B, None, None]:
    """A local E2B for the whole session; take `local_e2b`, which also points the SDKs to it."""
    if importlib.util.find_spec("uvicorn") is None or importlib.util.find_spec("starlette") is None:
        pytest.fail('local_e2b needs: uv pip install "sandboxio-testing[e2b]"', pytrace=False)
    from sandboxio_testing.e2b import LocalE2B

    with LocalE2B() as server:
        yield server


@pytest.fixture
def local_e2b(
    local_e2b_server: LocalE2B, monkeypatch: pytest.MonkeyPatch
) -> Generator[LocalE2B, None, None]:
    """A local E2B, with the environment set so that E2B's SDKs and `e2b://` use it.

    Faults that a test asked for are gone after it.
    """
    for name, value in local_e2b_server.environ.items():
        monkeypatch.setenv(name, value)
    yield local_e2b_server
    local_e2b_server.faults.clear()
