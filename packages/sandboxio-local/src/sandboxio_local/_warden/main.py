"""The warden's life: make the sandbox, watch over it, end it, leave nothing."""

# What these rules ask for (pathlib, contextlib) takes longer to import than all the rest here.
# ruff: noqa: PTH106, PTH108, PTH118, PTH120, PTH123, PTH208, SIM105
from __future__ import annotations

import os
import sys
import time
from select import POLLIN, poll

from sandboxio_local._warden import groups, session, spawn
from sandboxio_local._warden.options import Options, parse
from sandboxio_local._warden.waiting import Ended, Failed, Waiting, signals

__all__ = ["main"]

KILL_BOUND = 2.0
"""Seconds for a killed sandbox to be gone while somebody waits; the kernel needs milliseconds."""

UNAWAITED_BOUND = 30.0
"""Seconds for the same if nobody waits: on a busy machine it comes late, and nobody else cleans up."""

KILL_PAUSE = 0.01
"""Seconds between two looks at a killed sandbox whose end no signal announces."""

HELPER_BOUND = 10.0
"""Seconds for the network helper to be ready."""

IDLE_BOUND = 3600.0
"""Seconds of one wait while nothing happens; the next follows at once."""

ERRORS_KEPT = 4096
"""Bytes of what bubblewrap, the guest and the helper write to stderr that are kept, the newest."""


class Warden:
    """One sandbox, from its creator's request to its end."""

    def __init__(self, options: Options) -> None:
        self.options = options
        # They came here through an exec, and would go on through the next ones: a copy of the control
        # socket in the sandbox would be a way out, and one of the lock would outlive this process.
        for fd in (options.control, options.lock, options.arguments, *options.keep, *options.hold):
            os.set_inheritable(fd, False)
        self.waiting = Waiting(options.control, options.owner, options.lifetime)
        self.started: list[spawn.Bubblewrap] = []
        self.helper = 0
        self.reaped: dict[int, int] = {}
        self.streams: list[int] = []
        self.errors = b""

    def run(self) -> None:
        """Make the sandbox and stay until it has ended; whatever happens, clean up."""
        verdict = "ended died"
        try:
            self.note("warden", os.getpid())
            groups.make(self.options.cgroups)
            self.make_sandbox()
            self.watch()
        except Ended as ended:
            verdict = f"ended {ended.reason}"
        except Failed as failed:
            verdict = f"failed {failed.what} {failed.detail}"
        except Exception as error:  # noqa: BLE001 - whatever it is, the sandbox ends and its creator is told
            verdict = f"failed start {type(error).__name__}: {error}"
        finally:
            clean = self.end()
            self.read_errors()
            self.tell(f"{verdict}: {self.last_words()}")
            if clean:
                self.remove_directory()

    def make_sandbox(self) -> None:
        """Start everything and tell the creator."""
        bubblewrap = spawn.start(self.options, self.waiting, self.started, self.stream())
        self.note("init", bubblewrap.init)
        if self.options.helper:
            self.start_helper(bubblewrap.init)
        self.tell(f"started {bubblewrap.init}")
        bubblewrap.let_go()

    def watch(self) -> None:
        """Return when the sandbox's first process has ended."""
        bubblewrap = self.started[0]
        while True:
            ready = self.waiting.until(bubblewrap.init_fd, *self.streams, bound=IDLE_BOUND)
            self.read_errors()
            if bubblewrap.init_fd in ready:
                return
            self.reap()
            if bubblewrap.pid in self.reaped:
                return
            if self.helper in self.reaped:
                raise Failed("network", "the network helper ended")

    def start_helper(self, init: int) -> None:
        """Start what connects the sandbox's network namespace, and wait until it is ready."""
        from sandboxio_local._warden import network

        errors = self.stream()
        root = self.options.uid >= 0
        self.helper = network.start(self.waiting, self.options.helper, init, errors, enter=root)
        os.close(errors)
        self.note("helper", self.helper)
        network.wait(self.waiting, init, bound=HELPER_BOUND)

    def note(self, role: str, pid: int) -> None:
        """Write down who belongs to the sandbox, for those who clean up after a killed warden."""
        path = os.path.join(self.options.directory, "processes")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(fd, f"{role} {pid} {start_time(pid)}\n".encode())
        os.close(fd)

    def tell(self, message: str) -> None:
        """Send the creator one message; it may be gone."""
        try:
            os.write(self.options.control, message.encode()[:ERRORS_KEPT])
        except OSError:
            pass

    def read_errors(self) -> None:
        """Take what was written to stderr, so that its writer never blocks."""
        for stream in list(self.streams):
            try:
                data = os.read(stream, ERRORS_KEPT)
            except BlockingIOError:
                continue
            self.errors = (self.errors + data)[-ERRORS_KEPT:]
            if not data:
                os.close(stream)
                self.streams.remove(stream)

    def last_words(self) -> str:
        """Return how bubblewrap ended and what was written to stderr."""
        codes = [self.reaped[one.pid] for one in self.started if one.pid in self.reaped]
        text = self.errors.decode("utf-8", "replace").strip().replace("\n", "; ")
        return "; ".join([*(f"exit status {code}" for code in codes), *([text] if text else [])])

    def stream(self) -> int:
        """Return a descriptor to be somebody's stderr, to be closed here once it is."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        self.streams.append(read)
        return write

    def reap(self) -> bool:
        """Collect the children that have ended; whether there are others."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.reaped[pid] = os.waitstatus_to_exitcode(status)

    def kill_children(self) -> None:
        """Kill bubblewrap and the helper; nobody else reaps them, so their pids are theirs."""
        for pid in (*(bubblewrap.pid for bubblewrap in self.started), self.helper):
            if pid > 0 and pid not in self.reaped:
                os.kill(pid, signals.SIGKILL)

    def end(self) -> bool:
        """Kill the sandbox and its helper, and remove its groups; whether all is gone."""
        for bubblewrap in self.started:
            if bubblewrap.init_fd >= 0:
                # With its first process the kernel kills the whole pid namespace.
                kill_init(bubblewrap.init_fd)
        self.kill_children()
        began = time.monotonic()
        # Bubblewrap may make a child while it is killed, so this looks until there is nobody: last,
        # because looking means to go through all processes of the host.
        while True:
            living = [one.init_fd for one in self.started if not gone(one)]
            if not self.reap() and not living and session.kill_all(os.getpid()):
                break
            left = began + self.patience(KILL_BOUND) - time.monotonic()
            if left <= 0:
                session.kill_all(os.getpid())  # whoever can be killed
                return False
            self.waiting.for_child(min(left, KILL_PAUSE), *living)
        groups.kill_all(self.options.join)
        return groups.remove(self.options.join, self.patience(groups.REMOVE_BOUND))

    def patience(self, bound: float) -> float:
        """Return the seconds for a part of the end that may take `bound` while somebody waits."""
        return UNAWAITED_BOUND if self.waiting.is_unawaited() else bound

    def remove_directory(self) -> None:
        """Remove the sandbox's state, and the directory of all sandboxes if it was the last."""
        directory = self.options.directory
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)
        try:
            os.rmdir(os.path.dirname(directory))
        except OSError:
            pass  # others are in it


def kill_init(init_fd: int) -> None:
    """Kill the first process of a sandbox."""
    try:
        signals.pidfd_send_signal(init_fd, signals.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended


def gone(bubblewrap: spawn.Bubblewrap) -> bool:
    """Say whether a sandbox's first process has ended; bubblewrap may have died before it."""
    if bubblewrap.init_fd < 0:
        return True
    watch = poll()
    watch.register(bubblewrap.init_fd, POLLIN)
    return bool(watch.poll(0))


def start_time(pid: int) -> int:
    """Return when a process started, in ticks since boot; with its pid, that names it for ever."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def main() -> None:
    """Run a warden with the arguments of this process."""
    Warden(parse(sys.argv[1:])).run()
    # All is done and written. To take the interpreter apart would be half the work of an end.
    os._exit(0)
