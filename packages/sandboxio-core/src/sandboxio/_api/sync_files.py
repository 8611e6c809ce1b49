"""The files of a sandbox, for callers without an event loop."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..models import FileInfo
from ..protocols import AsyncFileSystem
from .sync_portal import Portal

__all__ = ["SyncFileSystem"]


class SyncFileSystem:
    """Files of one sandbox, from `Sandbox.files`; the same as `AsyncFileSystem`, without ``async``.

    Example:
        >>> def copy(sandbox):
        ...     sandbox.files.write("a.txt", "hello")
        ...     return sandbox.files.read("a.txt")
    """

    def __init__(self, portal: Portal, files: AsyncFileSystem) -> None:
        self._portal = portal
        self._files = files

    def __repr__(self) -> str:
        return repr(self._files)

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        return self._portal.call(partial(self._files.read, path))

    def write(self, path: str, data: bytes | str) -> None:
        """Write a file; all of it appears, or nothing does. Text is encoded as UTF-8."""
        self._portal.call(partial(self._files.write, path, data))

    def upload(self, local: str | Path, remote: str) -> None:
        """Copy a file of the host into the sandbox, in constant memory, mode and mtime included."""
        self._portal.call(partial(self._files.upload, local, remote))

    def download(self, remote: str, local: str | Path) -> None:
        """Copy a file of the sandbox to the host, in constant memory."""
        self._portal.call(partial(self._files.download, remote, local))

    def ls(self, path: str = ".") -> list[FileInfo]:
        """List a directory, sorted by path."""
        return self._portal.call(partial(self._files.ls, path))

    def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Make a directory; with ``parents``, missing parents too, and an existing one is fine."""
        self._portal.call(partial(self._files.mkdir, path, parents=parents))

    def remove(self, path: str) -> None:
        """Remove a file, a link (not what it points to), or a directory with all it holds."""
        self._portal.call(partial(self._files.remove, path))

    def stat(self, path: str) -> FileInfo:
        """Return what is known of a path, without following a final link."""
        return self._portal.call(partial(self._files.stat, path))
