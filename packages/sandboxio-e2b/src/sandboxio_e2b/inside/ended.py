"""Kills what code has started that outlives its interpreter, and says whether nothing is left.

Run once that interpreter is gone, with an entry of the environment that all it started inherits,
and the session that it led, or 0. Whoever was forked without a new program has its old environment,
and whoever left the session has the variable; what has neither is found below one that has.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Set, Tuple

BOUND = 2.0  # seconds; the host does not wait much longer
PAUSE = 0.01


def read(pid: int, name: str) -> bytes:
    """Return a file of a process, or nothing if it is gone or somebody else's."""
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            return file.read()
    except OSError:
        return b""


def left(mark: bytes, session: int) -> Set[int]:
    """Return what is left, without what has ended and waits for its parent to notice."""
    found: Dict[int, Tuple[int, int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            fields = read(int(entry), "stat").rpartition(b")")[2].split()
            if len(fields) > 3 and fields[0] != b"Z":
                found[int(entry)] = (int(fields[1]), int(fields[3]))
    doomed: Set[int] = set()
    for pid in found:
        if found[pid][1] == session or mark in read(pid, "environ").split(b"\0"):
            doomed.add(pid)
    while True:
        more = {pid for pid, (parent, _) in found.items() if parent in doomed} - doomed
        if not more:
            return doomed
        doomed |= more


def main() -> int:
    """Kill until nothing is left, and say whether it is so."""
    mark, session = sys.argv[1].encode(), int(sys.argv[2]) or -1
    stop = time.monotonic() + BOUND
    while True:
        doomed = left(mark, session)
        if not doomed:
            return 0
        if time.monotonic() > stop:
            return 1
        for pid in doomed:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(PAUSE)


if __name__ == "__main__":
    sys.exit(main())
