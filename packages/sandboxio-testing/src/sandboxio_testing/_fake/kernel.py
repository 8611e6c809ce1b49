"""The processes of a fake sandbox: generators that are run one step at a time.

Nothing here knows an event loop: who holds a machine calls `Kernel.run`, and time is only looked at.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import signal
from collections.abc import Callable, Mapping

from .handles import Handle
from .nodes import DirNode, FileNode, fail
from .process import Died, Family, Missing, Proc, Program, Steps
from .procfs import ProcFs
from .sockets import Ports
from .tree import Tree

__all__ = ["Kernel"]

STOPPING = frozenset({signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
IGNORED = frozenset({signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH})

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class Kernel:
    """The process table of one machine."""

    def __init__(
        self,
        tree: Tree,
        now: Callable[[], float],
        programs: Mapping[str, Program],
        interpreters: Mapping[str, Callable[[str], Program]],
        *,
        processes: int,
        memory: int,
    ) -> None:
        self.tree = tree
        self.now = now
        self.memory = memory
        self.ports = Ports()
        self._programs = programs
        self._interpreters = interpreters
        self._limit = processes
        self._pids = itertools.count(2)
        self._procs: dict[int, Proc] = {}
        self._running: Proc | None = None
        self._procfs = ProcFs(tree)

    def living(self) -> list[Proc]:
        """Every process that has not ended, oldest first."""
        return list(self._procs.values())

    def get(self, pid: int) -> Proc | None:
        """Return a living process."""
        return self._procs.get(pid)

    def spawn(
        self,
        program: Program,
        *,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        cwd: str,
        handles: Mapping[int, Handle],
        parent: Proc | None = None,
    ) -> Proc:
        """Make a process; it takes its first step at the next `run`."""
        family = Family() if parent is None else parent.family
        if len(self._procs) >= self._limit:
            family.too_many_processes = True
            raise fail(errno.EAGAIN)
        pid = next(self._pids)
        proc = Proc(
            self,
            pid,
            1 if parent is None else parent.pid,
            pid if parent is None else parent.group,
            family,
            argv,
            env,
            cwd,
            {fd: handle.share() for fd, handle in handles.items()},
        )
        if parent is not None:
            proc.ignored = set(parent.ignored)
        proc.steps = guarded(proc, program)
        self._procs[pid] = proc
        self._procfs.appears(proc)
        return proc

    def became(self, proc: Proc) -> None:
        """A process is another program now."""
        self._procfs.appears(proc)

    def lookup(self, name: str, env: Mapping[str, str], cwd: str) -> Program | Missing:
        """Find a program as `execvp` does."""
        denied = False
        places = (
            [name]
            if "/" in name
            else [f"{folder or '.'}/{name}" for folder in env.get("PATH", DEFAULT_PATH).split(":")]
        )
        for place in places:
            try:
                node = self.tree.find(place, cwd)
            except OSError as error:
                denied = denied or error.errno == errno.EACCES
                continue
            if isinstance(node, DirNode) or not node.mode & 0o100:
                denied = True
                continue
            if isinstance(node, FileNode):
                return self._program_of(node, place, name)
        if denied:
            return Missing(f"sandboxio: {name}: Permission denied", 126)
        return Missing(
            f"sandboxio: {name}: command not found (the fake has only a few programs of its own; "
            "say with on_run() what this one does)",
            127,
        )

    def _program_of(self, node: FileNode, place: str, name: str) -> Program | Missing:
        if node.program is not None:
            return self._programs[node.program]
        line = bytes(node.data[:256]).split(b"\n", 1)[0]
        if not line.startswith(b"#!"):
            return Missing(f"sandboxio: {name}: Exec format error", 126)
        words = os.fsdecode(line[2:]).split()
        interpreter = words[-1].rpartition("/")[2] if words else ""
        if interpreter not in self._interpreters:
            return Missing(f"sandboxio: {name}: bad interpreter", 126)
        return self._interpreters[interpreter](place)

    # --- signals

    def signal(self, proc: Proc, signum: int) -> None:
        """Deliver a signal to one process."""
        if proc.status is not None:
            return
        if signum == signal.SIGCONT:
            proc.stopped = False
        if signum == signal.SIGKILL:
            self.end(proc, 128 + signum)
        elif signum in proc.trapped:
            proc.pending.append(signum)
        elif signum == signal.SIGSTOP:
            proc.stopped = True
        elif signum in proc.ignored or signum in IGNORED or signum == 0:
            return
        elif signum in STOPPING:
            proc.stopped = True
        else:
            self.end(proc, 128 + signum)

    def signal_group(self, group: int, signum: int) -> bool:
        """Deliver a signal to a process group; whether there was one."""
        members = [proc for proc in self.living() if proc.group == group]
        for proc in members:
            self.signal(proc, signum)
        return bool(members)

    def kill_family(self, family: Family) -> None:
        """Kill everything that came of one command."""
        for proc in self.living():
            if proc.family is family:
                self.end(proc, 128 + signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill everything."""
        for proc in self.living():
            self.end(proc, 128 + signal.SIGKILL)

    def end(self, proc: Proc, status: int) -> None:
        """Take a process out of the table."""
        if proc.status is not None:
            return
        proc.status = status
        del self._procs[proc.pid]
        self._procfs.vanishes(proc)
        if proc.steps is not None and proc is not self._running:
            proc.steps.close()
        for fd in list(proc.handles):
            proc.close(fd)
        for child in self.living():
            if child.parent == proc.pid:
                child.parent = 1

    # --- running

    def run(self, budget: int) -> bool:
        """Let processes run, for `budget` steps at most; whether one could still go on."""
        while True:
            moved = False
            for proc in self.living():
                if self._can_run(proc):
                    if budget <= 0:
                        return True
                    budget -= 1
                    moved = True
                    self._step(proc)
            if not moved:
                return False

    def next_wake(self) -> float:
        """The next moment that a process waits for, or infinity."""
        return min(
            (p.wait.until for p in self.living() if p.wait is not None and not p.stopped),
            default=math.inf,
        )

    def _can_run(self, proc: Proc) -> bool:
        if proc.status is not None or proc.stopped:
            return False
        wait = proc.wait
        return wait is None or wait.until <= self.now() or wait.ready()

    def _step(self, proc: Proc) -> None:
        assert proc.steps is not None
        self._running = proc
        self._procfs.runs(proc)
        try:
            proc.wait = next(proc.steps)
        except StopIteration as stop:
            self.end(proc, stop.value & 0xFF)
        finally:
            self._running = None
        if proc.status is not None:
            proc.steps.close()  # it ended itself, for example with `kill -9 $$`


def guarded(proc: Proc, program: Program) -> Steps:
    """Run a program; what it does not handle ends it as it would end a real one."""
    try:
        return (yield from program(proc))
    except Died as died:
        return 128 + died.signum
    except OSError as error:
        try:
            return (yield from proc.complain(error.strerror or "failed"))
        except (OSError, Died):
            return 1
