"""Fixtures for tests of code that uses sandboxio.

The plugin of this wheel registers them in every pytest run of the environment, so this module
loads nothing of sandboxio before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from . import FakeBackend

__all__ = ["sbx_fake", "sbx_no_leaks", "sbx_offline"]

FAKES = pytest.StashKey["list[FakeBackend]"]()
"""The fakes that fixtures made for a test."""


@pytest.fixture
def sbx_fake(request: pytest.FixtureRequest) -> Generator[FakeBackend, None, None]:
    """A `sandboxio_testing.FakeBackend` for one test; all its sandboxes end with it."""
    from . import FakeBackend

    fake = FakeBackend()
    node: pytest.Item = request.node
    node.stash.setdefault(FAKES, []).append(fake)
    yield fake
    fake.close()


@pytest.fixture
def sbx_offline(sbx_fake: FakeBackend) -> Generator[FakeBackend, None, None]:
    """``sbx_fake``, and for this test every DSN means it: ``docker://``, ``e2b://``, none at all."""
    from .offline import offline

    with offline(sbx_fake):
        yield sbx_fake


@pytest.fixture
def sbx_no_leaks(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    """Fail a test that leaves a sandbox behind that it created.

    It sees the sandboxes of ``sbx_fake``, ``sbx_offline``, and of every backend that a DSN, a typed
    configuration or ``register()`` leads to. For a whole module or class:
    ``pytestmark = pytest.mark.usefixtures("sbx_no_leaks")``.
    """
    before = _open(request)
    yield
    leaked = sorted(_open(request) - before)
    if leaked:
        listed = ", ".join(f"{backend}:{sandbox_id}" for backend, sandbox_id in leaked)
        pytest.fail(
            f"The test left {len(leaked)} sandbox(es) behind: {listed}. Use `async with`, or call "
            "kill().",
            pytrace=False,
        )


def _open(request: pytest.FixtureRequest) -> set[tuple[str, str]]:
    """Return the backend and the id of each sandbox that was created and not ended."""
    from sandboxio.spi import DriverBackend, default_registry

    node: pytest.Item = request.node
    fakes: list[FakeBackend] = node.stash.setdefault(FAKES, [])
    backends = [*default_registry().opened(), *fakes]
    return {
        (backend.name, sandbox_id)
        for backend in backends
        if isinstance(backend, DriverBackend)
        for sandbox_id in backend.open_sandboxes
    }
