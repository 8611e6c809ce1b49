"""Bounded waits of a warden: whatever it waits for, its creator's end and a signal come first."""

from __future__ import annotations

import os
import time
from select import POLLIN, poll

__all__ = ["Ended", "Failed", "Waiting", "restore_signals", "signals"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signals
else:
    # What is below it, without the enumerations that take it three milliseconds.
    import _signal as signals


_IGNORED = (signals.SIGINT, signals.SIGHUP, signals.SIGPIPE, signals.SIGXFSZ)


def restore_signals() -> None:
    """Undo what a program that is executed from here would inherit; called in the child."""
    for number in _IGNORED:
        signals.signal(number, signals.SIG_DFL)


class Ended(Exception):
    """The sandbox is to end now.

    Attributes:
        reason: ``owner``, ``asked``, ``lifetime`` or ``died``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Failed(Exception):
    """The sandbox could not be made as it was asked for.

    Attributes:
        what: Which part failed; a word that the creator knows.
        detail: One line.
    """

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(what, detail)
        self.what = what
        self.detail = detail


class Waiting:
    """Watches the creator, the signals and the lifetime while something else is waited for."""

    def __init__(self, control: int, owner: int, lifetime: float) -> None:
        self.control = control
        self.ends_at = time.monotonic() + lifetime
        self.terminated = False
        self.poll = poll()
        self.wake, wake_write = os.pipe()
        for fd in (self.wake, wake_write):
            os.set_blocking(fd, False)
        # Whatever thread of the creator's started this, with whatever it had blocked.
        signals.pthread_sigmask(signals.SIG_SETMASK, ())
        signals.set_wakeup_fd(wake_write)
        signals.signal(signals.SIGCHLD, self.on_signal)
        signals.signal(signals.SIGTERM, self.on_signal)
        for number in _IGNORED:
            signals.signal(number, signals.SIG_IGN)
        # A fork of the creator may hold the control socket open; the creator itself is what counts.
        self.owner = os.pidfd_open(owner)
        for fd in (control, self.owner, self.wake):
            self.poll.register(fd, POLLIN)

    def on_signal(self, number: int, _frame: object) -> None:
        """Take a signal; the wakeup descriptor ends the wait."""
        if number == signals.SIGTERM:
            self.terminated = True

    def until(self, *fds: int, bound: float) -> set[int]:
        """Wait until one of `fds` is readable, a child ended, or `bound` seconds passed.

        Raises:
            Ended: The sandbox is to end.
        """
        deadline = time.monotonic() + bound
        for fd in fds:
            self.poll.register(fd, POLLIN)
        try:
            while True:
                now = time.monotonic()
                if now >= self.ends_at:
                    raise Ended("lifetime")
                seconds = max(0.0, min(deadline, self.ends_at) - now)
                ready = {fd for fd, _ in self.poll.poll(seconds * 1000 + 1)}
                if self.control in ready and not os.read(self.control, 64):
                    raise Ended("owner")
                if self.owner in ready:
                    raise Ended("owner")
                if self.terminated:
                    raise Ended("asked")
                if self.wake in ready:
                    os.read(self.wake, 512)
                if ready or time.monotonic() >= deadline:
                    return ready.intersection(fds)
        finally:
            for fd in fds:
                self.poll.unregister(fd)

    def is_unawaited(self) -> bool:
        """Say whether nobody waits for the sandbox's end, however it came to it."""
        if self.terminated:
            return False
        if time.monotonic() >= self.ends_at:
            return True
        watch = poll()
        # A creator that waits has only shut its side down, which is no hang-up; that of one that died
        # is closed, and a little later it is gone itself.
        watch.register(self.control, 0)
        watch.register(self.owner, POLLIN)
        return bool(watch.poll(0))

    def for_child(self, seconds: float, *fds: int) -> None:
        """Wait until a child has ended or one of `fds` is readable, for a while, whatever else happens."""
        watch = poll()
        for fd in (self.wake, *fds):
            watch.register(fd, POLLIN)
        if any(fd == self.wake for fd, _ in watch.poll(seconds * 1000)):
            os.read(self.wake, 512)

    def read_all(self, fd: int, *, bound: float, what: str) -> bytes:
        """Read to the end of a pipe within `bound` seconds."""
        deadline = time.monotonic() + bound
        data = b""
        while time.monotonic() < deadline:
            if fd in self.until(fd, bound=deadline - time.monotonic()):
                piece = os.read(fd, 4096)
                if not piece:
                    return data
                data += piece
        raise Failed(what, f"no answer within {bound:g} s")
