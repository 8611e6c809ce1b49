"""A sink that keeps what it is given, and a backend of this host that records to it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from sandboxio.audit import AuditConfig, AuditEvent
from sandboxio.protocols import AsyncSandbox
from sandboxio.spi import DriverBackend


class Collected:
    """A sink that keeps events."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    async def emit(self, event: AuditEvent) -> None:
        self.events.append(event)

    def take(self) -> list[AuditEvent]:
        """What came since the last time."""
        taken, self.events = self.events, []
        return taken


@pytest.fixture
def collected() -> Collected:
    """A sink that keeps events."""
    return Collected()


@pytest.fixture
def recording_backend(host_driver: Any, collected: Collected) -> DriverBackend:
    """The engine over `host_driver`, recording to `collected`, source text included."""
    return DriverBackend(host_driver, audit=AuditConfig(sinks=(collected,), capture_code=True))


@pytest.fixture
async def recorded(
    recording_backend: DriverBackend, collected: Collected
) -> AsyncIterator[AsyncSandbox]:
    """A sandbox whose operations go to `collected`; its own create is not among them."""
    metadata = {"tenant_id": "acme", "session_id": "s-1", "other": "label"}
    async with await recording_backend.create(timeout=100, metadata=metadata) as made:
        collected.take()
        yield made


@pytest.fixture
def no_debug() -> Iterator[None]:
    """Nobody listens to the library's logger in this test, whatever the environment says."""
    logger = logging.getLogger("sandboxio")
    before = logger.level
    logger.setLevel(logging.WARNING)
    yield
    logger.setLevel(before)
