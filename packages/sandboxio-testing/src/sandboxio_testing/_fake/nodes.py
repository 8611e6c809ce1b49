"""What the file system of a fake sandbox consists of."""

from __future__ import annotations

import os
import stat

__all__ = ["DeviceNode", "DirNode", "FileNode", "LinkNode", "Node", "PipeNode", "fail"]


def fail(number: int, path: str = "") -> OSError:
    """Return the error of an errno."""
    return OSError(number, os.strerror(number), path)


class Node:
    """What a name in a directory stands for."""

    kind = 0

    def __init__(self, mode: int, mtime: float) -> None:
        self.mode = mode
        self.mtime = mtime
        self.names = 1

    @property
    def size(self) -> int:
        """Bytes, as ``stat`` tells them."""
        return 0


class FileNode(Node):
    """A regular file."""

    kind = stat.S_IFREG

    def __init__(self, mode: int, mtime: float, data: bytes = b"") -> None:
        super().__init__(mode, mtime)
        self.data = bytearray(data)
        self.program: str | None = None

    @property
    def size(self) -> int:
        """Bytes of its content."""
        return len(self.data)


class DirNode(Node):
    """A directory."""

    kind = stat.S_IFDIR

    def __init__(self, mode: int, mtime: float) -> None:
        super().__init__(mode, mtime)
        self.entries: dict[str, Node] = {}

    @property
    def size(self) -> int:
        """What a small directory takes on disk."""
        return 4096


class LinkNode(Node):
    """A symbolic link."""

    kind = stat.S_IFLNK

    def __init__(self, target: str, mtime: float) -> None:
        super().__init__(0o777, mtime)
        self.target = target

    @property
    def size(self) -> int:
        """Length of its target."""
        return len(os.fsencode(self.target))


class DeviceNode(Node):
    """A character device: ``null``, ``zero``, ``full`` or ``urandom``."""

    kind = stat.S_IFCHR

    def __init__(self, name: str, mtime: float) -> None:
        super().__init__(0o666, mtime)
        self.name = name


class PipeNode(Node):
    """A named pipe, which nothing of the fake opens."""

    kind = stat.S_IFIFO

    def __init__(self, mtime: float) -> None:
        super().__init__(0o644, mtime)
