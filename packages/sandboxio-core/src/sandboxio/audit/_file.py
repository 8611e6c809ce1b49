"""Events as lines of a file, whole whatever happens to their writers."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

import anyio
from anyio import to_thread

from ._event import AuditEvent

__all__ = ["FileSink"]

LOCK_BOUND = 2.0
"""Seconds that `FileSink` waits for another writer of the same file to finish its line."""

LOCK_POLL = 0.002
"""Seconds between two looks at that lock; a line takes microseconds."""

TAIL_PIECE = 1 << 16
"""Bytes read at once in search of the last whole line."""


class FileSink:
    """Appends one JSON line per event to a file; any number of threads and processes may share it.

    What ends in a newline is a whole event. A writer that is killed in the middle of a line leaves
    a piece without a newline, which the next writer removes. A new file is readable by its owner
    only.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def __repr__(self) -> str:
        return f"<FileSink {str(self._path)[-150:]}>"

    async def emit(self, event: AuditEvent) -> None:
        """Append one event, in a worker thread."""
        line = event.as_line().encode("ascii") + b"\n"
        # A limiter of its own: the workers of the host may all be busy, and with other things.
        await to_thread.run_sync(
            _append, self._path, line, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )


_LINE_START = b'{"ts": "'
"""How each line begins; tells the remains of a line of ours from a file without a last newline."""


def _append(path: Path, line: bytes) -> None:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    fd = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
    try:
        locked = stat.S_ISREG(os.fstat(fd).st_mode) and _lock(fd)
        if locked:
            _mend(fd)
        end = os.fstat(fd).st_size
        written = os.write(fd, line)
        if written != len(line):
            if locked:
                os.ftruncate(fd, end)
            raise OSError(errno.ENOSPC, "the line was not written as a whole", str(path))
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    """Wait until no other writer is within a line; closing the file lets go of it.

    Returns ``False`` where files have no such lock: the line is then only appended.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    ends_at = time.monotonic() + LOCK_BOUND
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends_at:
                raise
            time.sleep(LOCK_POLL)
        except OSError:  # some network file systems
            return False
        else:
            return True


def _mend(fd: int) -> None:
    """Remove what a killed writer left of its line; a line that was not ours gets its newline."""
    end = start = os.fstat(fd).st_size
    tail = b""
    while start and b"\n" not in tail:
        piece = min(TAIL_PIECE, start)
        start -= piece
        tail = os.pread(fd, piece, start) + tail
    remains = tail[tail.rfind(b"\n") + 1 :]
    if not remains:
        return
    if remains.startswith(_LINE_START) or _LINE_START.startswith(remains):
        os.ftruncate(fd, end - len(remains))
    else:
        os.write(fd, b"\n")
