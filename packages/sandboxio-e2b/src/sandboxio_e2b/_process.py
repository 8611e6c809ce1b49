"""One command in a sandbox, whose connection may break."""

from __future__ import annotations

from sandboxio.errors import SandboxUnreachable
from sandboxio.models import OutputChunk
from sandboxio.spi import ExitCause, ProcessDriver, ProcessExit
from sandboxio_e2b._guest import Guest
from sandboxio_e2b._link import Link
from sandboxio_e2b._portal import Portal

__all__ = ["LinkedProcess"]


class LinkedProcess:
    """A command of the guest's; only its kill differs, for that must not need the connection."""

    def __init__(
        self, process: ProcessDriver, guest: Guest, link: Link, mark: str, portal: Portal
    ) -> None:
        self._process = process
        self._guest = guest
        self._link = link
        self._portal = portal
        self._mark = mark
        self._lost = False

    async def receive(self) -> OutputChunk | None:
        """Return the next output, or ``None`` at the end of all of it."""
        return None if self._lost else await self._process.receive()

    async def wait(self) -> ProcessExit:
        """Return how it ended."""
        if self._lost:
            return ProcessExit(128 + 9, ExitCause.KILLED)
        return await self._process.wait()

    async def send(self, data: bytes) -> None:
        """Write to stdin."""
        await self._process.send(data)

    async def send_eof(self) -> None:
        """Close stdin."""
        await self._process.send_eof()

    async def signal(self, signum: int) -> None:
        """Signal the process group."""
        await self._process.signal(signum)

    async def kill(self) -> bool:
        """Kill the whole tree; if the connection is broken, by making another."""
        if not self._lost and not self._link.over:
            try:
                return await self._process.kill()
            except SandboxUnreachable:
                pass  # it broke meanwhile
        if not self._lost:
            await self._portal.call(lambda: self._guest.settle(self._mark))
            self._lost = True
        return True

    async def aclose(self) -> None:
        """Release what is held for it."""
        await self._process.aclose()
