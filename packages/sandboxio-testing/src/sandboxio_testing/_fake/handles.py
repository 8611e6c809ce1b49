"""What a descriptor of a simulated process stands for: files, devices, pipes, and the host's side."""

from __future__ import annotations

import errno
from collections import deque
from typing import Literal

from .nodes import DeviceNode, FileNode, fail
from .tree import Tree

__all__ = ["Handle", "HostInput", "HostOutput", "PipeEnd", "open_node", "pipe"]

PIPE_SIZE = 65536
"""Bytes that a pipe holds, as on Linux."""

WINDOW = 1 << 18
"""Bytes of a command's output that may wait for its reader; a slow reader slows its own command."""

Stream = Literal["stdout", "stderr"]


class Handle:
    """An open file, shared by every descriptor that was made from it."""

    def __init__(self) -> None:
        self._holders = 1

    def share(self) -> Handle:
        """Count one more descriptor of it."""
        self._holders += 1
        return self

    def release(self) -> None:
        """Count one descriptor less; with the last, it is closed."""
        self._holders -= 1
        if self._holders == 0:
            self.closed()

    def closed(self) -> None:
        """The last descriptor is gone."""

    def readable(self) -> bool:
        """Whether `read` would not wait."""
        return True

    def writable(self) -> bool:
        """Whether `write` would not wait."""
        return True

    def read(self, size: int) -> bytes:
        """Read; ``b""`` at the end."""
        raise fail(errno.EBADF)

    def write(self, data: bytes) -> int:
        """Write a part, and say how much it was."""
        raise fail(errno.EBADF)


class FileHandle(Handle):
    """A regular file and a position in it."""

    def __init__(self, tree: Tree, node: FileNode, *, read: bool, append: bool) -> None:
        super().__init__()
        self._tree = tree
        self._node = node
        self._read = read
        self._append = append
        self._position = 0

    def read(self, size: int) -> bytes:
        """Read on."""
        if not self._read:
            raise fail(errno.EBADF)
        data = bytes(self._node.data[self._position : self._position + size])
        self._position += len(data)
        return data

    def write(self, data: bytes) -> int:
        """Write on, or at the end."""
        if self._read:
            raise fail(errno.EBADF)
        if self._append:
            self._position = len(self._node.data)
        written = self._tree.write_at(self._node, self._position, data)
        self._position += written
        return written


class DeviceHandle(Handle):
    """A device."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def read(self, size: int) -> bytes:
        """Nothing, or zeros without end. Random bytes are the same in every run."""
        if self._name == "null":
            return b""
        if self._name == "urandom":
            return bytes((index * 167 + 13) % 256 for index in range(min(size, 4096)))
        return bytes(size)

    def write(self, data: bytes) -> int:
        """Swallow it; the full device is full."""
        if self._name == "full":
            raise fail(errno.ENOSPC)
        return len(data)


class _Pipe:
    def __init__(self) -> None:
        self.data = bytearray()
        self.readers = 1
        self.writers = 1


class PipeEnd(Handle):
    """One end of a pipe."""

    def __init__(self, shared: _Pipe, *, writes: bool) -> None:
        super().__init__()
        self._pipe = shared
        self._writes = writes

    def closed(self) -> None:
        """Tell the other end."""
        if self._writes:
            self._pipe.writers = 0
        else:
            self._pipe.readers = 0

    def readable(self) -> bool:
        """There is data, or nobody who could write."""
        return bool(self._pipe.data) or not self._pipe.writers

    def writable(self) -> bool:
        """There is room, or nobody who could read."""
        return len(self._pipe.data) < PIPE_SIZE or not self._pipe.readers

    def read(self, size: int) -> bytes:
        """Take from the front."""
        if self._writes:
            raise fail(errno.EBADF)
        data = bytes(self._pipe.data[:size])
        del self._pipe.data[:size]
        return data

    def write(self, data: bytes) -> int:
        """Add at the end."""
        if not self._writes:
            raise fail(errno.EBADF)
        if not self._pipe.readers:
            raise fail(errno.EPIPE)
        room = PIPE_SIZE - len(self._pipe.data)
        self._pipe.data += data[:room]
        return min(room, len(data))


def pipe() -> tuple[PipeEnd, PipeEnd]:
    """Return the reading and the writing end of a new pipe."""
    shared = _Pipe()
    return PipeEnd(shared, writes=False), PipeEnd(shared, writes=True)


class HostOutput:
    """What a command has written and the host has not taken yet, in the order of writing."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[Stream, bytearray]] = deque()
        self._size = 0
        self._detached = False

    @property
    def waiting(self) -> bool:
        """Whether there is something to take."""
        return bool(self._pieces)

    def handle(self, stream: Stream) -> Handle:
        """Return what the command writes to."""
        return _OutputHandle(self, stream)

    def room(self) -> int:
        """Bytes that may be added now."""
        return WINDOW if self._detached else WINDOW - self._size

    def add(self, stream: Stream, data: bytes) -> int:
        """Take in a part of what is written."""
        if self._detached:
            return len(data)
        taken = data[: self.room()]
        if self._pieces and self._pieces[-1][0] == stream:
            self._pieces[-1][1].extend(taken)
        else:
            self._pieces.append((stream, bytearray(taken)))
        self._size += len(taken)
        return len(taken)

    def take(self) -> tuple[Stream, bytes] | None:
        """Hand out the next piece."""
        if not self._pieces:
            return None
        stream, data = self._pieces.popleft()
        self._size -= len(data)
        return stream, bytes(data)

    def detach(self) -> None:
        """The command has ended: what its background children still write goes nowhere."""
        self._detached = True


class _OutputHandle(Handle):
    def __init__(self, output: HostOutput, stream: Stream) -> None:
        super().__init__()
        self._output = output
        self._stream: Stream = stream

    def writable(self) -> bool:
        return self._output.room() > 0

    def write(self, data: bytes) -> int:
        return self._output.add(self._stream, data)


class HostInput(Handle):
    """A command's stdin, as far as the host has given it."""

    def __init__(self, data: bytes, *, open_: bool) -> None:
        super().__init__()
        self._data = bytearray(data)
        self._open = open_
        self._read_by = True

    def closed(self) -> None:
        """Nobody reads any more; what comes is dropped."""
        self._read_by = False
        self._data.clear()

    def readable(self) -> bool:
        """There is data, or its end."""
        return bool(self._data) or not self._open

    def read(self, size: int) -> bytes:
        """Take from the front."""
        data = bytes(self._data[:size])
        del self._data[:size]
        return data

    def has_room(self) -> bool:
        """Whether more may be sent."""
        return len(self._data) < WINDOW or not self._read_by

    def send(self, data: bytes) -> None:
        """Add what the host sends."""
        if self._read_by and self._open:
            self._data += data

    def end(self) -> None:
        """No more will come."""
        self._open = False


def open_node(tree: Tree, path: str, cwd: str, flags: str) -> Handle:
    """Open a path as a shell's redirection does: to read (``r``), write (``w``) or append (``a``)."""
    place = tree.place(path, cwd)
    if isinstance(place.node, DeviceNode):
        return DeviceHandle(place.node.name)
    if flags == "r":
        node = tree.file(path, cwd)
        return FileHandle(tree, node, read=True, append=False)
    node = tree.create(path, cwd)
    if flags == "w":
        tree.truncate(node)
    return FileHandle(tree, node, read=False, append=flags == "a")
