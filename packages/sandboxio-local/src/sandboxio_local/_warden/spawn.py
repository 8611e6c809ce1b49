"""Starting bubblewrap, and holding its sandbox until every cap is in force."""

# What these rules ask for (pathlib, contextlib) takes longer to import than all the rest here.
# ruff: noqa: PTH115, PTH119, S606
from __future__ import annotations

import os
import resource

from sandboxio_local._warden import groups
from sandboxio_local._warden.options import Options
from sandboxio_local._warden.waiting import Failed, Waiting, restore_signals

__all__ = ["Bubblewrap", "start"]

INFO_BOUND = 10.0
"""Seconds for bubblewrap to have made its namespaces; it takes about one millisecond."""

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")


class Bubblewrap:
    """A running bubblewrap whose sandbox waits to be let go.

    Attributes:
        pid: Of bubblewrap itself, a child of this process.
        init: Pid of the sandbox's first process, as seen from here.
        init_fd: Its pidfd, which can be waited for and cannot come to mean another process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.init = 0
        self.init_fd = -1
        self.info = -1
        self.block = -1

    def let_go(self) -> None:
        """Let the sandbox's first process run the guest."""
        os.write(self.block, b"g")
        os.close(self.block)
        self.block = -1


def start(options: Options, waiting: Waiting, started: list[Bubblewrap], errors: int) -> Bubblewrap:
    """Start bubblewrap and return when its namespaces exist and its limits are set.

    Args:
        options: What to start.
        waiting: How to wait.
        started: Gets the process as soon as there is one, so that a failure can end it.
        errors: What it gets as stderr; closed here.
    """
    info, info_write = os.pipe()
    block_read, block = os.pipe()
    told, tell = os.pipe()
    go_read, go = os.pipe()
    inherited = [options.arguments, *options.keep, info_write, block_read]
    argv = [
        # With the sandbox's name, so that whoever finds it knows whose it is.
        f"bwrap:{os.path.basename(options.directory)}",
        *("--args", str(options.arguments)),
        *("--info-fd", str(info_write)),
        *("--block-fd", str(block_read)),
        "--",
        *options.command,
    ]
    pid = os.fork()
    if pid == 0:
        # What is the warden's alone. With a copy of its lock this would pass for it once it is dead,
        # and with one of the other ends of its own pipes it would wait for itself.
        for fd in (options.control, options.lock, *options.hold, info, block, told, go):
            os.close(fd)
        _become_bubblewrap(options, argv, inherited, errors, tell, go_read)
    bubblewrap = Bubblewrap(pid)
    bubblewrap.info, bubblewrap.block = info, block
    started.append(bubblewrap)
    # Copies of the guest's descriptors here would keep its connections from ever ending.
    for fd in (*inherited, errors, tell, go_read):
        os.close(fd)
    if options.uid >= 0:
        from sandboxio_local._warden.namespace import give_id

        give_id(waiting, pid, options.uid, told, go)
    text = waiting.read_all(info, bound=INFO_BOUND, what="bwrap")
    for fd in (info, told, go):
        os.close(fd)
    bubblewrap.init = _child_pid(text)
    bubblewrap.init_fd = os.pidfd_open(bubblewrap.init)
    _check_namespaces(bubblewrap.init)
    _limit(bubblewrap.init, options)
    return bubblewrap


def _become_bubblewrap(
    options: Options, argv: list[str], inherited: list[int], errors: int, tell: int, go: int
) -> None:
    try:
        groups.join(options.join)
        if options.uid >= 0:
            from sandboxio_local._warden.namespace import enter

            enter(options.stage, tell, go)
        nothing = os.open(os.devnull, os.O_RDWR)
        for source, target in ((nothing, 0), (nothing, 1), (errors, 2)):
            os.dup2(source, target)
        for fd in inherited:
            os.set_inheritable(fd, True)
        restore_signals()
        os.execve(options.bwrap, argv, {})
    except OSError as error:
        os.write(errors, f"{error.filename or 'start'}: {error.strerror}\n".encode())
    finally:
        os._exit(70)


def _child_pid(text: bytes) -> int:
    # One JSON object whose first member this is; the json module costs more than the rest of a start.
    digits = text.partition(b'"child-pid":')[2].partition(b",")[0].strip(b" }\n")
    if not digits.isdigit():
        raise Failed("bwrap", "it ended before its namespaces existed")
    return int(digits)


def _check_namespaces(pid: int) -> None:
    for name in NAMESPACES:
        try:
            theirs = os.readlink(f"/proc/{pid}/ns/{name}")
        except FileNotFoundError as error:
            raise Failed("bwrap", "it ended before it was ready") from error
        except OSError as error:
            raise Failed("namespace", f"{name}: {error.strerror}") from error
        if theirs == os.readlink(f"/proc/self/ns/{name}"):
            raise Failed("namespace", f"the sandbox has no {name} namespace of its own")


def _limit(pid: int, options: Options) -> None:
    try:
        for number, value in options.limits:
            resource.prlimit(pid, number, (value, value))
        if options.cores:
            os.sched_setaffinity(pid, options.cores)
    except (OSError, ValueError) as error:
        raise Failed("limits", str(error)) from error
