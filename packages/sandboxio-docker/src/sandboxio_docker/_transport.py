"""The stream to a guest: a hijacked connection, with the engine's frames taken off."""

from __future__ import annotations

import copy
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from sandboxio.errors import ProviderError, ResourceLimitExceeded, SandboxError, SandboxGone
from sandboxio.spi import SocketTransport

from ._demux import BadFrame, Demultiplexer
from ._ending import Ending

__all__ = ["DockerTransport", "FrameReader"]

MAX_DIAGNOSTIC = 8192
"""Bytes of the guest's stderr that are kept; it says something only when it cannot start."""

END_POLL = 0.5
"""Seconds between two looks at the container's own end. With some runtimes (gVisor) an exec that is
under way says nothing when its container dies, and would be waited for without an end; and an engine
that is stuck with what a container did not read any more does not close the connection."""

LEAST_PIPE = 1 << 16
"""Bytes that the pipe to a container takes at least. Of so much no engine gets stuck with any."""


class FrameReader:
    """Reads a hijacked connection; shared by what runs over a guest and what does not."""

    def __init__(
        self, sock: socket.socket, rest: bytes = b"", ending: Ending | None = None
    ) -> None:
        self.transport = SocketTransport(sock)
        self.ending = ending
        self._socket = sock
        self._rest = rest
        self._demultiplexer = Demultiplexer()

    async def receive(self) -> list[tuple[str, memoryview]]:
        """Wait for output and return the pieces that came; empty at the end.

        Raises:
            OSError: The connection broke.
        """
        while True:
            data = self._rest or await self._receive()
            self._rest = b""
            if not data:
                return []
            try:
                pieces = self._demultiplexer.feed(data)
            except BadFrame as error:
                raise ProviderError(f"The Docker Engine broke its protocol: {error}.") from error
            if pieces:
                return list(pieces)

    async def _receive(self) -> bytes:
        if self.ending is None:
            return await self.transport.receive()
        while True:
            data: bytes | None = None
            with anyio.move_on_after(END_POLL):
                data = await self.transport.receive()
            if data is not None:
                return data
            if await self.ending.has_come():
                return b""

    async def wait_sendable(self) -> None:
        """Wait until there is room to send.

        Raises:
            OSError: The container has ended, and nobody will ever make room.
        """
        while True:
            with anyio.move_on_after(END_POLL):
                await self.transport.wait_sendable()
                return
            if self.ending is not None and await self.ending.has_come():
                raise ConnectionResetError("the container has ended")

    def end_input(self) -> None:
        """Say that nothing more will be sent; output still comes."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection."""
        self.transport.close()


class DockerTransport:
    """A `Transport` of a guest.

    What its end means is asked once, when it is seen: a container that was removed, one that ran
    out of memory and an engine that was stopped all look alike to a socket.
    """

    def __init__(
        self,
        reader: FrameReader,
        autopsy: Callable[[], Awaitable[SandboxError | None]],
    ) -> None:
        self._reader = reader
        self._ending = reader.ending
        self._autopsy = autopsy
        self._sent = 0
        self._ended = False
        self._closed = False
        self._examined = False
        self._cause: SandboxError | None = None
        self.diagnostic = bytearray()

    async def receive(self) -> bytes:
        """Wait for bytes from the guest; ``b""`` when it has ended by itself.

        Raises:
            SandboxError: It has ended, and this is why.
        """
        while not self._ended:
            try:
                pieces = await self._reader.receive()
            except OSError:
                pieces = []
            if not pieces:
                self._ended = True
                break
            data = [piece for stream, piece in pieces if stream == "stdout"]
            for stream, piece in pieces:
                if stream == "stderr" and len(self.diagnostic) < MAX_DIAGNOSTIC:
                    self.diagnostic += piece[:MAX_DIAGNOSTIC]
            if data:
                return data[0].tobytes() if len(data) == 1 else b"".join(data)
        if not (self._examined or self._closed):
            self._cause = await self._autopsy()
            self._examined = True
        if self._cause is not None and not self._closed:
            # One for each who waits: they are raised in different tasks.
            raise copy.copy(self._cause)
        return b""

    def begin_anew(self) -> None:
        """Note that something begins now, which does not hear what ended that which ran before."""
        if isinstance(self._cause, ResourceLimitExceeded):
            # What begins now only finds the sandbox gone.
            self._cause = SandboxGone(self._cause.message)

    def watch(self, ending: Ending) -> None:
        """From now on, once much was sent, let those who wait long look whether the container ended."""
        self._ending = ending
        self._sent = 0

    def send_nowait(self, *pieces: memoryview) -> int:
        """Send what fits without waiting."""
        self.begin_anew()
        sent = self._reader.transport.send_nowait(*pieces)
        self._sent += sent
        if self._sent > LEAST_PIPE:
            self._reader.ending = self._ending
        return sent

    async def wait_sendable(self) -> None:
        """Wait until there is room.

        Raises:
            OSError: The container has ended, and nobody will ever make room.
        """
        await self._reader.wait_sendable()

    def close(self) -> None:
        """Close it, and what watches the container."""
        self._closed = True
        self._reader.close()
        if self._ending is not None:
            self._ending.close()
