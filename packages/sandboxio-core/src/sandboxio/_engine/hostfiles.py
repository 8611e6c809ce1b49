"""The host's side of a transfer: links are never followed, and a target appears whole or not."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import cast

from anyio import to_thread

from ..errors import ConfigurationError, FileSystemError, PathNotFound
from ..spi import FileMeta

__all__ = ["check_local", "incoming", "outgoing"]

PIECE = 1 << 20
"""Bytes read or written by one worker-thread call; large enough to hide the cost of the hop."""

MAX_PIECES = 1024
"""Pieces that wait to be written, so that tiny ones do not become many objects."""


def check_local(local: object) -> Path:
    """Return a path of the host."""
    if not isinstance(local, str | os.PathLike):
        raise ConfigurationError(f"local must be a str or a Path, not {type(local).__name__}.")
    text = os.fspath(cast("str | os.PathLike[str] | os.PathLike[bytes]", local))
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigurationError("local must be a path that is not empty and has no NUL.")
    return Path(text)


def _host_error(error: OSError, path: Path) -> FileSystemError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return PathNotFound(
            f"{str(path)!r} does not exist on the host.",
            path=str(path),
            hint="Check the local path.",
        )
    if error.errno == errno.ELOOP:
        what = "is a symbolic link, and links of the host are not followed"
        hint = "Pass the path that it points to, for example Path(local).resolve()."
        return FileSystemError(f"{str(path)!r} {what}.", path=str(path), hint=hint)
    return FileSystemError(
        f"{str(path)!r} on the host: {error.strerror}.",
        path=str(path),
        hint="Check the local path.",
    )


@asynccontextmanager
async def outgoing(path: Path) -> AsyncGenerator[tuple[FileMeta, AsyncIterator[bytes]], None]:
    """Open a regular file of the host to be sent."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        fd = os.open(path, flags)
    except OSError as error:
        raise _host_error(error, path) from error
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise FileSystemError(
                f"{str(path)!r} on the host is not a regular file.",
                path=str(path),
                hint="Upload files one by one, or pack a directory into an archive first.",
            )
        async with aclosing(_pieces(fd, path)) as pieces:
            yield (
                FileMeta(
                    mode=stat.S_IMODE(info.st_mode) & 0o777, mtime=info.st_mtime, size=info.st_size
                ),
                pieces,
            )
    finally:
        os.close(fd)


async def _pieces(fd: int, path: Path) -> AsyncGenerator[bytes, None]:
    while True:
        try:
            data = await to_thread.run_sync(os.read, fd, PIECE)
        except OSError as error:
            raise _host_error(error, path) from error
        if not data:
            return
        yield data


class Incoming:
    """A file on its way to the host, not yet in its place."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._pieces: list[bytes] = []
        self._size = 0

    async def write(self, data: bytes) -> None:
        """Add content."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= PIECE or len(self._pieces) >= MAX_PIECES:
            await self.flush()

    async def flush(self) -> None:
        """Write out what is buffered."""
        pieces, self._pieces, self._size = self._pieces, [], 0
        try:
            await to_thread.run_sync(_write_all, self._fd, pieces)
        except OSError as error:
            raise _host_error(error, self._path) from error

    def set_meta(self, meta: FileMeta) -> None:
        """Give it the executable bits and the time that it has in the sandbox."""
        if meta.mode is not None and meta.mode & 0o111 and hasattr(os, "fchmod"):
            mode = stat.S_IMODE(os.fstat(self._fd).st_mode)
            os.fchmod(self._fd, mode | (mode & 0o444) >> 2)
        if meta.mtime is not None and os.utime in os.supports_fd:
            os.utime(self._fd, (meta.mtime, meta.mtime))


def _write_all(fd: int, pieces: list[bytes]) -> None:
    for piece in pieces:
        view = memoryview(piece)
        while view:
            view = view[os.write(fd, view) :]


def _refuse_directory(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        raise FileSystemError(
            f"{str(path)!r} on the host is a directory.",
            path=str(path),
            hint="Name the file to be written, for example its name in the sandbox.",
        )


@asynccontextmanager
async def incoming(path: Path) -> AsyncGenerator[Incoming, None]:
    """Receive a file beside its place, and put it there when the block ends without an error."""
    _refuse_directory(path)
    temporary = path.with_name(f".sandboxio-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        fd = os.open(temporary, flags, 0o666)
    except OSError as error:
        raise _host_error(error, path.parent) from error
    placed = False
    try:
        try:
            file = Incoming(path, fd)
            yield file
            await file.flush()
        finally:
            os.close(fd)
        try:
            # Not here: the file that was there is freed with all its pages, which takes its time.
            await to_thread.run_sync(temporary.replace, path)
        except OSError as error:
            raise _host_error(error, path) from error
        placed = True
    finally:
        if not placed:
            temporary.unlink(missing_ok=True)
