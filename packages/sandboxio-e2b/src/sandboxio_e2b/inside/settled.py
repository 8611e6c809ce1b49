"""Waits until every command that a guest was running when this began is dead, trees included.

Run by that guest, over a new connection to it, with its process id: a broken connection makes it
kill the commands of that connection, and this is how to know that it has. Each command has a
supervisor, a forked copy of the guest that ends only when nothing is left below it.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Set, Tuple

BOUND = 4.0  # seconds; a tree dies in milliseconds, and the host does not wait much longer
PAUSE = 0.01


def read(pid: int, name: str) -> bytes:
    """Return a file of a process, or nothing if it is gone."""
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            return file.read()
    except OSError:
        return b""


def supervisors(guest: int, own: int) -> Set[Tuple[int, bytes]]:
    """Return the guest's forked copies but the one that runs this, each with its start time."""
    found: Set[Tuple[int, bytes]] = set()
    command = read(guest, "cmdline")
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        fields = read(int(name), "stat").rpartition(b")")[2].split()
        if len(fields) > 19 and int(fields[1]) == guest and read(int(name), "cmdline") == command:
            found.add((int(name), fields[19]))
    return found


def main() -> int:
    """Wait, and say whether it is so."""
    guest, own = int(sys.argv[1]), os.getppid()
    old = supervisors(guest, own)
    stop = time.monotonic() + BOUND
    while old & supervisors(guest, own):
        if time.monotonic() > stop:
            return 1
        time.sleep(PAUSE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
