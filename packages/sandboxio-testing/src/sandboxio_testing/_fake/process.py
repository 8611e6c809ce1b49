"""One simulated process, and the system calls that it can make.

A program is a function that takes its `Proc` and returns a generator. The generator yields a `Wait`
whenever the process has to wait, and returns its exit code.
"""

from __future__ import annotations

import errno
import math
import signal
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .handles import Handle
from .nodes import fail
from .tree import Tree

if TYPE_CHECKING:
    from .kernel import Kernel

__all__ = [
    "Died",
    "Effect",
    "Family",
    "Missing",
    "Proc",
    "Program",
    "Reading",
    "Steps",
    "Wait",
    "encode",
    "never",
]

BUSY = 1000
"""System calls without a pause after which a process is charged time for them."""

FIRST_CHARGE = 0.001
"""Seconds that the first such piece takes. Each further one takes twice as long, so that a loop
that never pauses reaches its deadline after some thousand steps, and not after some million."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a process does not go on: until `ready` is true, or a moment has come."""

    ready: Callable[[], bool]
    until: float = math.inf


RUNNABLE = Wait(lambda: True)

Steps = Generator[Wait, None, int]
Effect = Generator[Wait, None, None]
Reading = Generator[Wait, None, bytes]


class Died(Exception):
    """A process ends by a signal; raised inside of it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


class Family:
    """All processes that came of one command, `setsid` and double forks included."""

    def __init__(self) -> None:
        self.out_of_memory = False
        self.too_many_processes = False
        self.disk_full = False


class Proc:
    """One simulated process."""

    def __init__(
        self,
        kernel: Kernel,
        pid: int,
        parent: int,
        group: int,
        family: Family,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        cwd: str,
        handles: Mapping[int, Handle],
    ) -> None:
        self.kernel = kernel
        self.pid = pid
        self.parent = parent
        self.group = group
        self.family = family
        self.argv = argv
        self.env = dict(env)
        self.cwd = cwd
        self.handles = dict(handles)
        self.memory = 0
        self.status: int | None = None
        self.stopped = False
        self.ignored: set[int] = set()
        self.trapped: set[int] = set()
        self.pending: list[int] = []
        self.wait: Wait | None = None
        self.steps: Steps | None = None
        self._busy = 0
        self._charge = FIRST_CHARGE

    @property
    def tree(self) -> Tree:
        """The files of the machine."""
        return self.kernel.tree

    # --- system calls; those that may wait are generators

    def tick(self) -> Effect:
        """Give way to the others; who never pauses is charged time."""
        self._busy += 1
        if self._busy % BUSY:
            yield RUNNABLE
            return
        until = self.kernel.now() + self._charge
        self._charge *= 2
        yield Wait(never, until)

    def block(self, wait: Wait) -> Effect:
        """Wait, which makes up for having been busy."""
        while not wait.ready() and self.kernel.now() < wait.until:
            self._busy, self._charge = 0, FIRST_CHARGE
            yield wait

    def sleep(self, seconds: float) -> Effect:
        """Wait for time to pass."""
        yield from self.block(Wait(never, self.kernel.now() + seconds))

    def handle(self, fd: int) -> Handle:
        """Return what a descriptor stands for."""
        if fd not in self.handles:
            raise fail(errno.EBADF)
        return self.handles[fd]

    def read(self, fd: int, size: int = 65536) -> Reading:
        """Read what is there, and wait for something if there is nothing; ``b""`` at the end."""
        handle = self.handle(fd)
        yield from self.block(Wait(handle.readable))
        yield from self.tick()
        return handle.read(size)

    def read_all(self, fd: int) -> Reading:
        """Read to the end, within the memory of the machine."""
        data = bytearray()
        while piece := (yield from self.read(fd)):
            data += piece
            self.use_memory(len(piece))
        return bytes(data)

    def write(self, fd: int, data: bytes | str) -> Effect:
        """Write all of it; a reader that is gone ends the process, as SIGPIPE does."""
        handle = self.handle(fd)
        rest = encode(data)
        while rest:
            yield from self.block(Wait(handle.writable))
            yield from self.tick()
            try:
                rest = rest[handle.write(rest) :]
            except OSError as error:
                if error.errno == errno.EPIPE and signal.SIGPIPE not in self.ignored:
                    raise Died(signal.SIGPIPE) from None
                if error.errno == errno.ENOSPC:
                    self.family.disk_full = True
                raise

    def use_memory(self, size: int) -> None:
        """Take memory; the one that takes more than there is, is killed for it."""
        self.memory += size
        if sum(proc.memory for proc in self.kernel.living()) > self.kernel.memory:
            self.family.out_of_memory = True
            raise Died(signal.SIGKILL)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        handle = self.handles.pop(fd, None)
        if handle is not None:
            handle.release()

    def open_as(self, fd: int, handle: Handle) -> None:
        """Let a descriptor stand for something else."""
        self.close(fd)
        self.handles[fd] = handle

    def fork(self, program: Program, argv: tuple[str, ...] | None = None) -> Proc:
        """Start a child with copies of the descriptors; `EAGAIN` at the limit of processes."""
        return self.kernel.spawn(
            program,
            argv=self.argv if argv is None else argv,
            env=self.env,
            cwd=self.cwd,
            handles=self.handles,
            parent=self,
        )

    def wait_for(self, child: Proc) -> Steps:
        """Wait for a child, and return its status as a shell sees it."""
        yield from self.block(Wait(lambda: child.status is not None))
        assert child.status is not None
        return child.status

    def exec(self, argv: tuple[str, ...], env: Mapping[str, str] | None = None) -> Steps:
        """Become another program."""
        self.argv = argv
        if env is not None:
            self.env = dict(env)
        self.kernel.became(self)
        program = self.kernel.lookup(argv[0], self.env, self.cwd)
        if isinstance(program, Missing):
            yield from self.write(2, f"{program.message}\n")
            return program.status
        return (yield from program(self))

    def complain(self, message: str, status: int = 1) -> Steps:
        """Write a line to stderr that begins with the program's name, and return a status."""
        name = self.argv[0].rpartition("/")[2]
        yield from self.write(2, f"{name}: {message}\n")
        return status


Program = Callable[[Proc], Steps]


@dataclass(frozen=True)
class Missing:
    """A program that cannot be executed, and what a shell's status for that is."""

    message: str
    status: int


def never() -> bool:
    """What is waited for by who waits for time alone."""
    return False


def encode(data: bytes | str) -> bytes:
    """Return bytes; text as a sandbox encodes it."""
    return data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
