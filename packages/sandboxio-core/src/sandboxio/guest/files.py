"""Files of a guest on their way, as the host sees them."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque

from ..errors import DiskFull, FileSystemError, PathNotFound, SandboxError
from ..models import FileInfo
from ..spi import FileMeta
from . import program as wire
from .channel import GuestChannel, Operation
from .fields import BIGGEST, FARTHEST, LONGEST_AGO, bounded, decode_fields, items, number

__all__ = ["Listing", "Reading", "Writing", "file_error"]

READ_WINDOW = 1 << 21
"""Bytes of a file that may be under way and unread; bounds the host's memory per transfer."""

SMALL_PIECE = 1 << 14
"""Bytes of content below which a piece joins the one before it."""

WRITE_PIECE = wire.MAX_PAYLOAD
"""Bytes of a file in one frame. Other frames get between after a few milliseconds."""

MAX_ENTRIES = 200_000
"""Entries that a listing may have, so that a hostile directory cannot fill the host."""

MAX_LISTING = 1 << 25
"""Bytes that a listing may have, for the same reason: 160 for each of that many entries."""

MAX_NAME = 1024
"""Bytes of a name in a directory. Linux knows no file system with longer ones."""

MAX_MODE = 0o7777777
"""The highest mode that a file can have, its type included."""

MESSAGES = {
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted",
    errno.EISDIR: "it is a directory",
    errno.ENOTDIR: "a part of the path is not a directory",
    errno.EEXIST: "it exists already",
    errno.EBUSY: "this directory cannot be removed",
    errno.ELOOP: "too many symbolic links",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EROFS: "the file system is read-only",
    errno.ENOTSUP: "it is not a regular file",
    errno.ENOTEMPTY: "the directory is not empty",
    errno.EXDEV: "it is on another file system",
    errno.EFBIG: "it grew while it was read, or is larger than a file without a size may be",
}


def file_error(number: int, path: str) -> SandboxError:
    """Say in sandboxio's terms what an errno of the sandbox means for a path."""
    if number in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"No space is left in the sandbox for {path!r}.", limit="disk_mb")
    if number == errno.ENOENT:
        return PathNotFound(f"{path!r} does not exist in the sandbox.", path=path)
    what = MESSAGES.get(number) or os.strerror(number)
    return FileSystemError(f"{path!r}: {what}.", path=path)


class Reading(Operation):
    """A file that is read."""

    def __init__(self, channel: GuestChannel, path: str) -> None:
        super().__init__()
        self._channel = channel
        self._path = path
        self._granted = READ_WINDOW
        self._consumed = 0
        self._left = 0
        self._pieces: deque[bytes | bytearray] = deque()
        self._meta: FileMeta | None = None
        self._complete = False
        self._aborted = False

    def on_frame(self, kind: int, payload: bytes) -> bool:
        """Take a frame in."""
        if kind == wire.DATA and self._meta is not None:
            if not payload or len(payload) > min(self._granted, self._left):
                return False
            self._granted -= len(payload)
            self._left -= len(payload)
            if self._aborted:
                return True
            last = self._pieces[-1] if self._pieces else b""
            if len(payload) >= SMALL_PIECE:
                self._pieces.append(payload)
            elif isinstance(last, bytearray) and len(last) + len(payload) <= wire.CHUNK:
                last += payload  # tiny frames must not become many objects
            else:
                self._pieces.append(bytearray(payload))
            return True
        if kind == wire.INFO and self._meta is None:
            fields = decode_fields(payload)
            size = number(fields, b"size")
            self._meta = FileMeta(
                mode=number(fields, b"mode") & 0o7777,
                mtime=number(fields, b"mtime", LONGEST_AGO, FARTHEST) / 1000,
                size=size,
            )
            self._left = size or wire.UNSIZED
            return True
        if kind == wire.DONE and self._meta is not None:
            self._complete = self.ended = True
            return True
        return super().on_frame(kind, payload)

    async def open(self) -> FileMeta:
        """Return what is known of the file, once it is open."""
        request = {"path": self._path, "window": READ_WINDOW}
        self._channel.begin(self, wire.READ, request)
        await self._channel.flush()
        await self._channel.wait_until(self, lambda: self._meta is not None or self.ended)
        if self._meta is None:
            raise self.error()
        return self._meta

    async def receive(self) -> bytes:
        """Return the next piece; ``b""`` at the end."""
        await self._channel.wait_until(self, lambda: bool(self._pieces) or self.ended)
        if not self._pieces:
            if not self._complete:
                raise self.error()
            return b""
        data = self._pieces.popleft()
        self._consumed += len(data)
        if self._consumed >= READ_WINDOW // 2 and not self.ended:
            self._channel.post(wire.CREDIT, self.ident, {"n": self._consumed})
            self._granted += self._consumed
            self._consumed = 0
            self._channel.send_some()
        return bytes(data)

    def error(self) -> SandboxError:
        """Return why it failed."""
        return file_error(self.failure[0] if self.failure else errno.EIO, self._path)

    async def abort(self) -> None:
        """Have the guest forget it, and wait until it has."""
        self._aborted = True
        self._pieces.clear()
        await abort(self._channel, self)


class Writing(Operation):
    """A file that is written."""

    def __init__(self, channel: GuestChannel, path: str) -> None:
        super().__init__()
        self._channel = channel
        self._path = path
        self._credit = wire.WRITE_WINDOW

    def on_frame(self, kind: int, payload: bytes) -> bool:
        """Take a frame in."""
        if kind == wire.CREDIT:
            n = number(decode_fields(payload), b"n")
            self._credit += n
            return n > 0 and self._credit <= wire.WRITE_WINDOW
        if kind == wire.DONE:
            self.ended = True
            return True
        return super().on_frame(kind, payload)

    async def open(self, meta: FileMeta) -> None:
        """Begin; whether it may be written is told by `send` and `finish`."""
        request = {
            "path": self._path,
            "mode": -1 if meta.mode is None else meta.mode & 0o7777,
            "mtime": -1 if meta.mtime is None else max(0, int(meta.mtime * 1000)),
        }
        self._channel.begin(self, wire.WRITE, request)
        await self._channel.flush()

    async def send(self, data: bytes) -> None:
        """Send content."""
        view = memoryview(data)
        while view:
            if self._credit <= 0:
                await self._channel.wait_until(self, lambda: self._credit > 0 or self.ended)
            self._check()
            piece = view[: min(self._credit, WRITE_PIECE)]
            self._channel.post(wire.DATA, self.ident, piece)
            self._credit -= len(piece)
            view = view[len(piece) :]
            await self._channel.flush()

    async def finish(self) -> None:
        """Put the file in its place."""
        self._check()
        self._channel.post(wire.END, self.ident)
        await self._channel.flush()
        await self._channel.wait_until(self, lambda: self.ended)
        self._check()

    def _check(self) -> None:
        if self.failure is not None:
            raise file_error(self.failure[0], self._path)

    async def abort(self) -> None:
        """Have the guest undo it, and wait until it has."""
        await abort(self._channel, self)


async def abort(channel: GuestChannel, operation: Operation) -> None:
    """End an operation that is still under way."""
    if operation.ident and not operation.ended and not channel.failed:
        channel.post(wire.ABORT, operation.ident)
        await channel.flush()
        await channel.wait_until(operation, lambda: operation.ended)


class Listing(Operation):
    """Entries that are listed, or a request that is merely answered."""

    def __init__(self, channel: GuestChannel, path: str) -> None:
        super().__init__()
        self._channel = channel
        self._path = path
        self._kind = 0
        self._last_seen = False
        self._size = 0
        self._most = MAX_ENTRIES
        self.entries: list[FileInfo] = []
        self.too_many = False

    def on_frame(self, kind: int, payload: bytes) -> bool:
        """Take a frame in."""
        if kind == wire.ENTRIES:
            if self._last_seen:
                return False
            found = items(decode_fields(payload), b"e")
            # Only the last part of a listing may be empty, or it could go on for ever.
            self._last_seen = not found
            self._size += len(payload)
            if len(self.entries) + len(found) > self._most or self._size > MAX_LISTING:
                self.too_many = self._kind == wire.LS
                return self.too_many
            self.entries += [self._entry(item) for item in found]
            return True
        if kind == wire.DONE:
            self.ended = bool(self.entries) or self._kind != wire.STAT
            return self.ended
        return super().on_frame(kind, payload)

    def _entry(self, item: object) -> FileInfo:
        match item:
            case [bytes(name), int(size), int(mode), int(mtime)]:
                bounded(mode, "mode", 0, MAX_MODE)
                listed = self._kind == wire.LS
                return FileInfo(
                    path=join(self._path, entry_name(name)) if listed else self._path,
                    size=bounded(size, "size", 0, BIGGEST),
                    is_dir=stat.S_ISDIR(mode),
                    is_link=stat.S_ISLNK(mode),
                    mode=stat.S_IMODE(mode),
                    mtime=bounded(mtime, "mtime", LONGEST_AGO, FARTHEST) / 1000,
                )
            case _:
                raise wire.Malformed("a directory entry of another shape")

    async def ask(self, kind: int, *, parents: bool = False) -> list[FileInfo]:
        """Make the request and return what came."""
        self._kind = kind
        self._most = {wire.LS: MAX_ENTRIES, wire.STAT: 1}.get(kind, 0)
        self._channel.begin(self, kind, {"path": self._path, "parents": int(parents)})
        await self._channel.flush()
        await self._channel.wait_until(self, lambda: self.ended or self.too_many)
        if self.too_many:
            raise FileSystemError(
                f"{self._path!r} has more entries than a listing may have ({MAX_ENTRIES}).",
                path=self._path,
                hint="List it in the sandbox: run(['find', ...])",
            )
        if self.failure is not None:
            raise file_error(self.failure[0], self._path)
        return self.entries

    async def abort(self) -> None:
        """Have the guest forget it, and wait until it has."""
        await abort(self._channel, self)


def entry_name(name: bytes) -> str:
    """Return the name of a directory entry, which must not lead anywhere else.

    Callers build paths of the host from listings, so a made-up ``../x`` or ``/x`` would be a way out.
    """
    if not 0 < len(name) <= MAX_NAME or b"/" in name or b"\0" in name or name in (b".", b".."):
        raise wire.Malformed("a directory entry that is no name")
    return name.decode("utf-8", "surrogateescape")


def join(folder: str, name: str) -> str:
    """Join sandbox paths; ``posixpath`` by hand, for a host may be Windows."""
    return name if folder in ("", ".") else folder.rstrip("/") + "/" + name
