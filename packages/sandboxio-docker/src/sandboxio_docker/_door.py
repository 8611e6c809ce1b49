"""A shorter way to a guest on this machine: a socket of this process that is mounted into its container.

What goes over the engine is copied by it and by the container's shim, which takes most of the time of
a transfer. So where both are on one kernel, the guest connects to a socket here before any command
runs, and from then on the engine's stream is the lease and tells why the container ended.

The mount is one socket and read-only. Once the guest has come in, or has not, nobody listens at it any
more.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from sandboxio.errors import ConnectError, ProviderError, SandboxError
from sandboxio.models import IsolationTier
from sandboxio.spi import SocketTransport, Transport

from ._endpoint import Endpoint
from ._transport import DockerTransport

__all__ = ["INSIDE", "Door", "Doors"]

INSIDE = "/run/sandboxio"
"""Where it is in the container."""

PREFIX = "sandboxio-docker-"
"""How the folders begin in which it is here."""

NOT_MOUNTED = re.compile(r"\bmount|\bbind\b|denied|not shared", re.IGNORECASE)
"""How engines say that they cannot see a file of this machine, or that policy forbids to mount it."""

Json = dict[str, Any]


class Door:
    """One socket, for one guest.

    Its folder stays as long as the container may: what the engine copies into and out of a container
    looks for all that is mounted there.
    """

    def __init__(self, folder: Path) -> None:
        """Listen in a folder that is there.

        Raises:
            OSError: The path is too long, or there is no room.
        """
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._listener = listener = socket.socket(socket.AF_UNIX)
        # Also when the process ends and nobody has closed it.
        self.close = weakref.finalize(self, shut, folder, listener, lock, os.getpid())
        is_locked(lock)
        self._path = folder / "door"
        listener.bind(str(self._path))
        # The folder is closed to other users here. In the container there is no folder, and its user
        # may be any.
        self._path.chmod(0o666)
        listener.listen(1)
        listener.setblocking(False)

    @property
    def mount(self) -> Json:
        """What the engine is told of it."""
        return {"Type": "bind", "Source": str(self._path), "Target": INSIDE, "ReadOnly": True}

    async def meet(self, attached: DockerTransport) -> Transport:
        """Wait until the guest comes in here, or speaks through the engine; return the way it chose.

        Nobody listens here any more then.
        """
        came: list[socket.socket] = []
        failures: list[OSError] = []
        try:
            async with anyio.create_task_group() as waiting:

                async def listen() -> None:
                    await anyio.wait_readable(self._listener)
                    try:
                        came.append(self._listener.accept()[0])
                    except OSError as error:
                        failures.append(error)
                    waiting.cancel_scope.cancel()

                async def attend() -> None:
                    with suppress(SandboxError):  # who receives is told again
                        await attached.begin()
                    waiting.cancel_scope.cancel()

                waiting.start_soon(listen)
                waiting.start_soon(attend)
        except BaseException:
            for sock in came:
                sock.close()
            raise
        self._listener.close()
        if failures:
            raise ConnectError(f"The guest could not be let in: {failures[0]}.") from failures[0]
        return DirectTransport(came[0], attached) if came else attached


class Doors:
    """Makes them for the sandboxes of one backend, as long as its engine can use them."""

    def __init__(self) -> None:
        self._usable = sys.platform != "win32"
        self._swept = False

    def open(self, endpoint: Endpoint, isolation: IsolationTier) -> Door | None:
        """Return one that is open, or ``None`` where a guest could not come in."""
        # Runtimes with a kernel of their own have no way from there to a socket of this one.
        near = endpoint.unix_path is not None and isolation is IsolationTier.CONTAINER
        if not (near and self._usable):
            return None
        if not self._swept:
            self._swept = True
            sweep()
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            try:
                return Door(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        return None

    def refused(self, error: SandboxError) -> bool:
        """Say whether an engine refused a container for its mount; then there are no more of them."""
        # Not one of its kinds: those are errors that are understood, and have other reasons.
        if type(error) is ProviderError and NOT_MOUNTED.search(error.message):
            self._usable = False
            return True
        return False


class DirectTransport:
    """A `Transport` of a guest that came in; why it ended, the engine's stream tells."""

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
                pass  # it says nothing there
        return data

    def send_nowait(self, *pieces: memoryview) -> int:
        """Send what fits without waiting."""
        self._attached.begin_anew()
        return self._direct.send_nowait(*pieces)

    async def wait_sendable(self) -> None:
        """Wait until there is room."""
        await self._direct.wait_sendable()

    def close(self) -> None:
        """Close both ways."""
        self._attached.close()
        self._direct.close()


def shut(folder: Path, listener: socket.socket, lock: int, owner: int) -> None:
    """Leave nothing of a door; a fork of its owner leaves it alone."""
    listener.close()
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def is_locked(fd: int) -> bool:
    """Say whether another holds the lock of a folder; if none does, take it until `fd` is closed."""
    import fcntl  # Windows has none

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def sweep() -> None:
    """Remove the doors of processes of this user that were killed: nobody holds their locks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.getuid() and not is_locked(lock):
                    shutil.rmtree(folder)
            finally:
                os.close(lock)
