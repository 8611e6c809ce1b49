"""Processes named by pid and start time, which together never come to mean another one."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

__all__ = ["alive", "open_process", "send", "start_time"]


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; ``None`` if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(text.rpartition(b")")[2].split()[19])


def open_process(pid: int, started: int) -> int | None:
    """Return a pidfd of that very process, or ``None`` if it is gone."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    # Compared after it was opened: from now on the descriptor cannot change its meaning.
    if start_time(pid) == started:
        return fd
    os.close(fd)
    return None


def alive(pid: int, started: int) -> bool:
    """Say whether that very process exists and has not ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    fields = text.rpartition(b")")[2].split()
    return int(fields[19]) == started and fields[0] not in (b"Z", b"X")


def send(pid: int, started: int, number: signal.Signals) -> bool:
    """Signal that very process; ``False`` if it is gone."""
    fd = open_process(pid, started)
    if fd is None:
        return False
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, number)
    finally:
        os.close(fd)
    return True
