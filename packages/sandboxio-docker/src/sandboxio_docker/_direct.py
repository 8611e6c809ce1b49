"""A shorter way to a guest on this machine, for a process that may enter the container's network.

What goes over the engine's stream is copied by the engine and by the container's shim, which takes most
of a transfer's time. A guest also listens at a socket without a name in the file system, which belongs to
the network namespace of its container: for further hosts, who get there by an exec. A process with the
rights to (root, as a rule) makes a socket in that namespace and connects it itself.

The engine's stream stays open beside it: it is the lease, and its end is looked into for the reason.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
import threading
from contextlib import suppress

import anyio

from sandboxio.spi import SocketTransport

from ._guest import LISTENER
from ._transport import DockerTransport

__all__ = ["DirectTransport", "reach", "wanted"]

CLONE_NEWNET = 0x40000000
"""Which namespace it is, for ``setns``."""

CREDENTIALS = struct.Struct("3i")
"""What the kernel says of who listens: pid, uid, gid."""


def wanted() -> bool:
    """Whether this way may be tried: ``SBX_DOCKER_DIRECT`` is not ``0``."""
    return sys.platform == "linux" and os.environ.get("SBX_DOCKER_DIRECT", "1") != "0"


async def reach(pid: int) -> socket.socket | None:
    """Connect to the guest that is this process; ``None`` if that is not possible from here."""
    return await anyio.to_thread.run_sync(_reach, pid, limiter=anyio.CapacityLimiter(1))


def _reach(pid: int) -> socket.socket | None:
    reached: list[socket.socket] = []

    def enter() -> None:
        with suppress(OSError):
            reached.append(_connect(pid))

    # Only this one thread is in the other namespace, and ends there. It waits for nothing.
    thread = threading.Thread(target=enter, name="sandboxio-docker")
    thread.start()
    thread.join()
    return reached[0] if reached else None


def _connect(pid: int) -> socket.socket:
    """Enter the namespace and connect.

    Raises:
        OSError: This process may not, or the guest is not there.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if libc.setns(namespace, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(namespace)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.setblocking(False)
        sock.connect(LISTENER)
        said = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        listener, _, _ = CREDENTIALS.unpack(said)
        if listener != pid:
            raise ConnectionRefusedError("another process listens there")
    except BaseException:
        sock.close()
        raise
    return sock


class DirectTransport:
    """A `Transport` of a guest that was reached; why it ended, the engine's stream tells."""

    def __init__(self, sock: socket.socket, attached: DockerTransport) -> None:
        self._direct = SocketTransport(sock)
        self._attached = attached

    async def receive(self) -> bytes:
        """Wait for bytes from the guest; ``b""`` when it has ended by itself.

        Raises:
            SandboxError: It has ended, and this is why.
        """
        data = b""
        with suppress(OSError):
            data = await self._direct.receive()
        if not data:
            while await self._attached.receive():
                pass  # nobody has asked it anything
        return data

    def send_nowait(self, *pieces: memoryview) -> int:
        """Send what fits without waiting."""
        self._attached.begin_anew()
        return self._direct.send_nowait(*pieces)

    async def wait_sendable(self) -> None:
        """Wait until there is room."""
        await self._direct.wait_sendable()

    def close(self) -> None:
        """Close both."""
        self._attached.close()
        self._direct.close()
