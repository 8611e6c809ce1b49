"""Waits until one command is dead, its whole tree, after its connection to the guest broke.

Run by that guest, over a new connection to it, with its process id and the command's mark, an
entry of its environment. The guest kills the commands of a connection that ends; this is how to
know that it has. Each command has a supervisor, a forked copy of the guest, below which all of the
command stays, and which ends when it has killed that.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Set, Tuple

BOUND = 4.0  # seconds; a tree dies in milliseconds, and the host does not wait much longer
PAUSE = 0.01


def read(pid: int, name: str) -> bytes:
    """Return a file of a process, or nothing if it is gone or somebody else's."""
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            return file.read()
    except OSError:
        return b""


def look() -> Dict[int, Tuple[int, bytes]]:
    """Return the parent and the start time of each process."""
    found: Dict[int, Tuple[int, bytes]] = {}
    for entry in os.listdir("/proc"):
        fields = read(int(entry), "stat").rpartition(b")")[2].split() if entry.isdigit() else []
        if len(fields) > 19 and fields[0] != b"Z":
            found[int(entry)] = (int(fields[1]), fields[19])
    return found


def busy(guest: int, mark: bytes, own: Set[Tuple[int, bytes]]) -> bool:
    """Say whether anything of the command is left; supervisors that were seen above it are kept."""
    processes = look()
    for pid in processes:
        if mark not in read(pid, "environ").split(b"\0"):
            continue
        line: List[int] = [pid]
        while line[-1] in processes and processes[line[-1]][0] not in (0, guest):
            line.append(processes[line[-1]][0])
        if line[-1] not in processes or line[-1] in (1, guest):
            return True
        own.add((line[-1], processes[line[-1]][1]))
    return any(pid in processes and processes[pid][1] == start for pid, start in own)


def main() -> int:
    """Wait, and say whether it is so."""
    supervisors: Set[Tuple[int, bytes]] = set()
    stop = time.monotonic() + BOUND
    while busy(int(sys.argv[1]), sys.argv[2].encode(), supervisors):
        if time.monotonic() > stop:
            return 1
        time.sleep(PAUSE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
