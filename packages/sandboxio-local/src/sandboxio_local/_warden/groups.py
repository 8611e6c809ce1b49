"""Control groups of one sandbox: made and removed by its warden."""

# What these rules ask for (pathlib, contextlib) takes longer to import than all the rest here.
# ruff: noqa: PTH102, PTH106, PTH110, PTH118, PTH120, PTH123, SIM105
from __future__ import annotations

import os
import time

from sandboxio_local._warden.waiting import Failed, signals

__all__ = ["join", "kill_all", "make", "remove"]

MAKE_TRIES = 20
"""Attempts to make a group while the end of another sandbox removes the empty parent."""

REMOVE_BOUND = 1.0
"""Seconds for the kernel to let go of a group whose processes have been reaped."""

REMOVE_PAUSE = 0.002
"""Seconds between two attempts to remove a group."""


def make(steps: list[str]) -> None:
    """Make the groups and set their caps.

    Raises:
        Failed: One cannot be made, or does not take a cap.
    """
    for attempt in range(MAKE_TRIES):
        try:
            for step in steps:
                _do(step)
        except FileNotFoundError as error:
            if attempt + 1 < MAKE_TRIES:
                continue
            raise Failed("cgroup", f"{error.filename}: {error.strerror}") from error
        except OSError as error:
            raise Failed("cgroup", f"{error.filename}: {error.strerror}") from error
        return


def _do(step: str) -> None:
    kind, _, rest = step.partition("=")
    if kind == "mkdir":
        try:
            os.mkdir(rest, 0o755)
        except FileExistsError:
            pass  # shared with other sandboxes
        return
    path, _, value = rest.partition("=")
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        error.filename = path  # a failed write does not name its file
        raise


def join(files: list[str]) -> None:
    """Put this process, which has one thread, into the groups."""
    for path in files:
        # Moving a process stops every fork on the host for some milliseconds; moving the calling
        # thread does not. Only version 1 lets a thread go where its process is not.
        thread = os.path.join(os.path.dirname(path), "tasks")
        path = thread if os.path.exists(thread) else path
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, b"0")
        os.close(fd)


def kill_all(files: list[str]) -> None:
    """Kill whatever is in the groups still; normally nothing, its pid namespace being gone."""
    for path in files:
        try:
            with open(path) as procs:
                for pid in procs.read().split():
                    os.kill(int(pid), signals.SIGKILL)
        except OSError:
            continue  # the group was not made, or the process is gone


def remove(files: list[str], bound: float = REMOVE_BOUND) -> bool:
    """Remove the groups, and their parents where they hold no other; whether all are gone."""
    deadline = time.monotonic() + bound
    for path in files:
        group = os.path.dirname(path)
        while True:
            try:
                os.rmdir(group)
            except FileNotFoundError:
                pass
            except OSError:
                if time.monotonic() > deadline:
                    return False
                kill_all([path])
                time.sleep(REMOVE_PAUSE)
                continue
            break
        try:
            os.rmdir(os.path.dirname(group))
        except OSError:
            pass  # other sandboxes are in it
    return True
