"""What a warden has started, found by its session.

A warden leads a session of its own. All that it starts stays in it until the guest is about to run,
by which time its pid is known. So a start that is broken off anywhere leaves nothing unknown, not
even the child of a bubblewrap that was killed before it had said who that is.
"""

# What this rule asks for (pathlib) takes longer to import than all the rest here.
# ruff: noqa: PTH123, PTH208
from __future__ import annotations

import os

from sandboxio_local._warden.waiting import signals

__all__ = ["kill_all", "members"]


def members(session: int) -> list[int]:
    """Return the living processes of a session other than its leader."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == session:
            continue
        if _may_be_in(int(name), session) and _is_in(int(name), session):
            found.append(int(name))
    return found


def kill_all(session: int, marker: bytes = b"") -> bool:
    """Kill every process of a session but its leader; whether there was none.

    Args:
        session: Its number.
        marker: What the command line of each must contain. Once its leader is gone and nobody was
            left in it, the number may have come to mean a stranger's.
    """
    found = [pid for pid in members(session) if _names(pid, marker)]
    for pid in found:
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            continue  # it has ended
        try:
            # Asked again, because by now the number could mean another process.
            if _is_in(pid, session) and _names(pid, marker):
                signals.pidfd_send_signal(fd, signals.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended
        finally:
            os.close(fd)
    return not found


def _may_be_in(pid: int, session: int) -> bool:
    # One system call that costs nothing. A file in /proc costs three that do, which is too much for
    # every process of the host when many sandboxes end at once.
    try:
        return os.getsid(pid) == session
    except ProcessLookupError:
        return False
    except OSError:
        return True  # some security modules tell no stranger


def _names(pid: int, marker: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return marker in file.read()
    except OSError:
        return False


def _is_in(pid: int, session: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return int(fields[3]) == session and fields[0] not in (b"Z", b"X")
