"""A local E2B for every test, and a look at what each leaves behind."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from sandboxio_e2b import E2BBackend
from sandboxio_testing.e2b import LocalE2B


@pytest.fixture
def backend() -> E2BBackend:
    """A backend of its own for each test."""
    return E2BBackend()


@pytest.fixture(autouse=True)
def server(local_e2b: LocalE2B) -> Generator[LocalE2B, None, None]:
    """The server; a test that leaves a sandbox fails."""
    before = len(local_e2b.errors)
    yield local_e2b
    local_e2b.faults.clear()
    left = local_e2b.sandboxes
    local_e2b.end_all()
    assert not left, f"the test left {left}"
    assert len(local_e2b.errors) == before, local_e2b.errors[before:]
