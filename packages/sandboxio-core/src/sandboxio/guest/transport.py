"""Byte streams to a guest."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Protocol

import anyio
import anyio.lowlevel

__all__ = ["SocketTransport", "Transport"]

RECEIVE_SIZE = 1 << 19
"""Bytes taken from the kernel at once."""

BUFFER_SIZE = 1 << 20
"""Socket buffers asked for, so that a whole window can be under way. The kernel may give less."""


class Transport(Protocol):
    """One duplex byte stream to a guest. At most one task is in each method at a time."""

    async def receive(self) -> bytes:
        """Wait for bytes and return them; ``b""`` at the end. Cancelling loses nothing."""
        ...

    def send_nowait(self, *pieces: memoryview) -> int:
        """Send what fits without waiting, and return how many bytes that was, perhaps 0."""
        ...

    async def wait_sendable(self) -> None:
        """Wait until `send_nowait` would take something, or would fail.

        Raises:
            OSError: Nothing can be sent any more; `receive` then finds the end too.
        """
        ...

    def close(self) -> None:
        """Close it and wake whoever waits for it; may be called again."""
        ...


class SocketTransport:
    """A connected stream socket. It belongs to no event loop, so any loop may use it in turn.

    Example:
        >>> import socket
        >>> ours, theirs = socket.socketpair()
        >>> transport = SocketTransport(ours)
        >>> transport.send_nowait(memoryview(b"hello"))
        5
        >>> transport.close()
        >>> theirs.close()
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_SIZE)
        self._socket = sock
        self._waiting = 0
        self._closed = False
        self._flooded = False

    async def receive(self) -> bytes:
        """Wait for bytes and return them; ``b""`` at the end."""
        if self._flooded:
            # A sandbox that floods the host must not keep the loop from its other tasks. Before
            # anything was taken from the socket, so that a cancellation here loses nothing.
            await anyio.lowlevel.checkpoint()
        self._flooded = True
        while not self._closed:
            try:
                return self._socket.recv(RECEIVE_SIZE)
            except BlockingIOError:
                with self._wait():
                    await anyio.wait_readable(self._socket)
                self._flooded = False
        return b""

    def send_nowait(self, *pieces: memoryview) -> int:
        """Send what fits without waiting."""
        try:
            if len(pieces) > 1 and hasattr(self._socket, "sendmsg"):  # Windows has none
                return self._socket.sendmsg(pieces)
            return self._socket.send(pieces[0])
        except BlockingIOError:
            return 0

    async def wait_sendable(self) -> None:
        """Wait until there is room."""
        with self._wait():
            await anyio.wait_writable(self._socket)

    def close(self) -> None:
        """Close the socket, as soon as nobody waits for it any more."""
        self._closed = True
        # Ends the connection even if a forked child still holds a copy, and wakes who waits
        # here: an event loop would never tell them about a descriptor that is just closed.
        with suppress(OSError):  # not connected any more
            self._socket.shutdown(socket.SHUT_RDWR)
        if not self._waiting:
            self._socket.close()

    @contextmanager
    def _wait(self) -> Generator[None, None, None]:
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if self._closed and not self._waiting:
                self._socket.close()
