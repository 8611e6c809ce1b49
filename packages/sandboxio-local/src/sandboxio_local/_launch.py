"""Starting a warden, talking to it, and ending it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from sandboxio_local._garbage import collect_ended
from sandboxio_local._processes import send

if TYPE_CHECKING:
    from sandboxio_local._state import StateDirectory
    from sandboxio_local._warden.options import Options

__all__ = ["Descriptors", "Warden", "Wardens"]

MESSAGE_SIZE: Final = 8192
"""Bytes of the longest message of a warden."""

END_BOUND: Final = 3.5
"""Seconds for a warden to end its sandbox: what it allows itself, and a little to get there."""

KILL_BOUND: Final = 1.0
"""Seconds for killed processes to be gone."""

_BOOT: Final = (
    "import sys; sys.path.append(sys.argv.pop(1));"
    "from sandboxio_local._warden.main import main; main()"
)


class Descriptors:
    """What is opened for a start and closed after it, whether or not it succeeds."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def own(self, fd: int) -> int:
        """Close a descriptor at the end."""
        self._stack.callback(os.close, fd)
        return fd

    def data(self, content: bytes) -> int:
        """Return a descriptor that content can be read from, to its end, by another process."""
        fd = self.own(os.memfd_create("sandboxio", os.MFD_CLOEXEC))
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def pair(self, kind: int) -> tuple[socket.socket, socket.socket]:
        """Return the two ends of a connection; the second one is closed at the end."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        self._stack.enter_context(theirs)
        return ours, theirs


class Warden:
    """The warden of one sandbox, started by this process."""

    def __init__(self, state: StateDirectory, control: socket.socket, options: Options) -> None:
        """Start it.

        Args:
            state: The sandbox's state directory.
            control: Our end of its control socket.
            options: What it is told; every descriptor in it is passed on.
        """
        self._state = state
        self._control = control
        self._ended = False
        control.setblocking(False)
        words = options.words()
        fds = (options.control, options.lock, options.arguments, *options.keep, *options.hold)
        self._process = subprocess.Popen(
            [*_python(), "-c", _BOOT, str(Path(__file__).parent.parent), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
            pass_fds=fds,
            start_new_session=True,
        )

    def has_ended(self) -> bool:
        """Say whether it has ended, and let the kernel forget it if so."""
        return self._process.poll() is not None

    async def message(self) -> str | None:
        """Return what it says next; ``None`` when it has ended."""
        while True:
            try:
                data = self._control.recv(MESSAGE_SIZE)
            except BlockingIOError:
                await anyio.wait_readable(self._control)
            except OSError:
                return None
            else:
                return data.decode("utf-8", "replace") or None

    async def end(self) -> None:
        """Have it end the sandbox, and return when nothing of it is left; may be called again.

        Raises:
            ConnectError: Something is still there.
        """
        if self._ended:
            return
        with suppress(OSError):  # it has ended by itself
            # Unlike a mere close, this is seen although a fork of this process holds a copy.
            self._control.shutdown(socket.SHUT_WR)
        try:
            if not await self._gone(END_BOUND):
                await self._kill()
            await collect_ended(self._state)
        finally:
            self._control.close()
        self._ended = True

    async def _kill(self) -> None:
        for pid, started in self._state.processes().values():
            send(pid, started, signal.SIGKILL)
        self._process.kill()
        await self._gone(KILL_BOUND)

    async def _gone(self, bound: float) -> bool:
        if self.has_ended():
            return True
        # A new descriptor for each wait: two tasks may wait here, and an event loop takes one only once.
        try:
            fd = os.pidfd_open(self._process.pid)
        except ProcessLookupError:
            return True  # another thread has reaped it meanwhile
        try:
            with anyio.move_on_after(bound):
                await anyio.wait_readable(fd)
                # Reaped, but not asked: while another thread does the same, `poll` does not tell.
                self.has_ended()
                return True
        finally:
            os.close(fd)
        return self.has_ended()


class Wardens:
    """The wardens that one driver has started and that have not ended.

    A sandbox ends by itself when its lifetime does, and its creator may never ask. This keeps its
    warden from staying a zombie, and what Python says about processes that nobody waited for away.
    """

    def __init__(self) -> None:
        self._living: set[Warden] = set()
        # Threads with an event loop each share one driver: each sandbox of `create_sync` has one.
        self._lock = threading.Lock()

    def add(self, warden: Warden) -> None:
        """Look after a warden, and forget those that have ended meanwhile."""
        with self._lock:
            self._living.add(warden)
        self.forget_ended()

    def forget_ended(self) -> None:
        """Let the kernel forget those that have ended."""
        with self._lock:
            self._living = {warden for warden in self._living if not warden.has_ended()}


def _python() -> list[str]:
    executable = sys.executable or str(Path(sys.base_prefix, "bin", "python3"))
    # Without -B it caches its compiled modules where it may, like any other import.
    return [executable, "-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
