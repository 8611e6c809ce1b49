"""The files of a fake sandbox: a tree in memory that fails as a real one does."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

from .nodes import DirNode, FileNode, LinkNode, Node, fail

__all__ = ["Tree"]

MAX_LINKS = 40
"""Links followed in one path, as on Linux."""

MAX_NAME = 255
MAX_PATH = 4096

DIR_MODE = 0o755
FILE_MODE = 0o644


class Place:
    """Where a path leads: the directory, the name in it, and what is there, if anything."""

    def __init__(self, folder: DirNode, name: str, node: Node | None, path: str) -> None:
        self.folder = folder
        self.name = name
        self.node = node
        self.path = path


class Tree:
    """A file system with one user, who owns all of it.

    Every method raises `OSError` with the errno that a real system would give. Paths are absolute,
    or relative to the `cwd` that the method is given.
    """

    def __init__(self, now: Callable[[], float], capacity: int) -> None:
        self.now = now
        self._capacity = capacity
        self.used = 0
        self.root = DirNode(DIR_MODE, now())

    # --- finding

    def place(self, path: str, cwd: str = "/", *, follow: bool = True) -> Place:
        """Find a path whose directory must exist, and which itself need not."""
        if not path:
            raise fail(errno.ENOENT, path)
        if len(os.fsencode(path)) >= MAX_PATH:
            raise fail(errno.ENAMETOOLONG, path)
        return self._walk(path, cwd, follow, [0])

    def _walk(self, path: str, cwd: str, follow: bool, links: list[int]) -> Place:
        absolute = path if path.startswith("/") else f"{cwd}/{path}"
        todo = [part for part in absolute.split("/") if part not in ("", ".")]
        must_be_dir = absolute.endswith(("/", "/."))
        trail: list[tuple[str, DirNode]] = [("", self.root)]
        place = Place(self.root, ".", self.root, "/")
        while todo:
            part = todo.pop(0)
            if len(os.fsencode(part)) > MAX_NAME:
                raise fail(errno.ENAMETOOLONG, path)
            if part == "..":
                if len(trail) > 1:
                    trail.pop()
                place = self._dir_place(trail)
                continue
            folder = trail[-1][1]
            if not folder.mode & 0o100:
                raise fail(errno.EACCES, path)
            node = folder.entries.get(part)
            here = "/".join([name for name, _ in trail] + [part])
            place = Place(folder, part, node, here)
            if isinstance(node, LinkNode) and (todo or follow or must_be_dir):
                links[0] += 1
                if links[0] > MAX_LINKS:
                    raise fail(errno.ELOOP, path)
                base = "/".join(name for name, _ in trail) or "/"
                rest = "/".join(todo)
                target = node.target + (f"/{rest}" if rest else "")
                return self._walk(target + "/" * must_be_dir, base, follow, links)
            if isinstance(node, DirNode):
                trail.append((part, node))
            elif todo or (must_be_dir and node is not None):
                raise fail(errno.ENOTDIR if node is not None else errno.ENOENT, path)
        return place

    def _dir_place(self, trail: list[tuple[str, DirNode]]) -> Place:
        if len(trail) == 1:
            return Place(self.root, ".", self.root, "/")
        path = "/".join(name for name, _ in trail)
        return Place(trail[-2][1], trail[-1][0], trail[-1][1], path)

    def find(self, path: str, cwd: str = "/", *, follow: bool = True) -> Node:
        """Return what a path leads to."""
        node = self.place(path, cwd, follow=follow).node
        if node is None:
            raise fail(errno.ENOENT, path)
        return node

    def real_path(self, path: str, cwd: str = "/") -> str:
        """Return the absolute path without links of what exists there."""
        place = self.place(path, cwd)
        if place.node is None:
            raise fail(errno.ENOENT, path)
        return place.path

    def directory(self, path: str, cwd: str = "/") -> DirNode:
        """Return the directory at a path."""
        node = self.find(path, cwd)
        if not isinstance(node, DirNode):
            raise fail(errno.ENOTDIR, path)
        return node

    def file(self, path: str, cwd: str = "/") -> FileNode:
        """Return the regular file at a path, if it may be read."""
        node = self.find(path, cwd)
        if isinstance(node, DirNode):
            raise fail(errno.EISDIR, path)
        if not isinstance(node, FileNode):
            raise fail(errno.ENOTSUP, path)
        if not node.mode & 0o400:
            raise fail(errno.EACCES, path)
        return node

    def walk(self, node: Node, path: str) -> Iterator[tuple[str, Node]]:
        """Yield a node and all below it, parents first."""
        todo = [(path, node)]
        while todo:
            here, found = todo.pop()
            yield here, found
            if isinstance(found, DirNode):
                todo += [(f"{here.rstrip('/')}/{name}", n) for name, n in found.entries.items()]

    # --- changing

    def add(self, place: Place, node: Node) -> None:
        """Put a new node where there is none."""
        if place.node is not None:
            raise fail(errno.EEXIST, place.path)
        self._writable(place)
        place.folder.entries[place.name] = node
        place.folder.mtime = self.now()
        place.node = node

    def _writable(self, place: Place) -> None:
        if not place.folder.mode & 0o200:
            raise fail(errno.EACCES, place.path)

    def place_of_file(self, path: str, cwd: str = "/") -> Place:
        """Return where a regular file is, or may be made, that may be written to."""
        place = self.place(path, cwd)
        if isinstance(place.node, DirNode) or (place.node is None and path.endswith("/")):
            raise fail(errno.EISDIR, path)
        if place.node is None:
            self._writable(place)
        elif not isinstance(place.node, FileNode):
            raise fail(errno.ENOTSUP, path)
        elif not place.node.mode & 0o200:
            raise fail(errno.EACCES, path)
        return place

    def create(self, path: str, cwd: str = "/", *, mode: int = FILE_MODE) -> FileNode:
        """Return the regular file at a path to be written to; make it if there is none."""
        place = self.place_of_file(path, cwd)
        if isinstance(place.node, FileNode):
            return place.node
        made = FileNode(mode, self.now())
        self.add(place, made)
        return made

    def mkdir(self, path: str, cwd: str = "/", *, parents: bool = False) -> None:
        """Make a directory."""
        if not parents:
            self.add(self.place(path.rstrip("/") or "/", cwd), DirNode(DIR_MODE, self.now()))
            return
        absolute = path if path.startswith("/") else f"{cwd}/{path}"
        here = ""
        for part in absolute.split("/"):
            if part in ("", "."):
                continue
            here += f"/{part}"
            place = self.place(here)
            if place.node is None:
                self.add(place, DirNode(DIR_MODE, self.now()))
            elif not isinstance(place.node, DirNode):
                last = here.strip("/") == absolute.strip("/")
                raise fail(errno.EEXIST if last else errno.ENOTDIR, path)

    def symlink(self, target: str, path: str, cwd: str = "/") -> None:
        """Make a symbolic link."""
        self.add(self.place(path, cwd, follow=False), LinkNode(target, self.now()))

    def link(self, existing: str, path: str, cwd: str = "/") -> None:
        """Give a file another name."""
        node = self.find(existing, cwd, follow=False)
        if isinstance(node, DirNode):
            raise fail(errno.EPERM, existing)
        self.add(self.place(path, cwd, follow=False), node)
        node.names += 1

    def unlink(self, path: str, cwd: str = "/") -> None:
        """Remove a name that is not a directory's."""
        place = self.place(path.rstrip("/"), cwd, follow=False)
        if place.node is None:
            raise fail(errno.ENOENT, path)
        if isinstance(place.node, DirNode):
            raise fail(errno.EISDIR, path)
        self._writable(place)
        self._drop(place)

    def rmdir(self, path: str, cwd: str = "/") -> None:
        """Remove an empty directory."""
        place = self.place(path, cwd, follow=False)
        if place.node is None:
            raise fail(errno.ENOENT, path)
        if not isinstance(place.node, DirNode):
            raise fail(errno.ENOTDIR, path)
        if place.node.entries:
            raise fail(errno.ENOTEMPTY, path)
        self._writable(place)
        self._drop(place)

    def remove(self, path: str, cwd: str, protected: str) -> None:
        """Remove a path and all below it; links are removed, not what they point to."""
        stripped = path.rstrip("/")
        if stripped.rpartition("/")[2] in ("", ".", ".."):
            raise fail(errno.EBUSY, path)
        place = self.place(stripped, cwd, follow=False)
        if place.node is None:
            raise fail(errno.ENOENT, path)
        if place.path == protected:
            raise fail(errno.EBUSY, path)
        self._writable(place)
        for _, node in self.walk(place.node, place.path):
            if isinstance(node, DirNode) and node.entries and not node.mode & 0o200:
                raise fail(errno.EACCES, path)
        for _, node in list(self.walk(place.node, place.path)):
            if node is not place.node:
                self._forget(node)
        self._drop(place)

    def _drop(self, place: Place) -> None:
        node = place.folder.entries.pop(place.name)
        place.folder.mtime = self.now()
        self._forget(node)

    def _forget(self, node: Node) -> None:
        node.names -= 1
        if node.names == 0 and isinstance(node, FileNode):
            self.used -= len(node.data)

    def rename(self, source: str, target: str, cwd: str = "/") -> None:
        """Move a name, replacing a file that is in the way."""
        origin = self.place(source.rstrip("/"), cwd, follow=False)
        if origin.node is None:
            raise fail(errno.ENOENT, source)
        goal = self.place(target.rstrip("/"), cwd, follow=False)
        self._writable(origin)
        self._writable(goal)
        if goal.node is origin.node:
            return
        if goal.path.startswith(origin.path + "/"):
            raise fail(errno.EINVAL, target)
        if isinstance(goal.node, DirNode):
            if goal.node.entries:
                raise fail(errno.ENOTEMPTY, target)
            if not isinstance(origin.node, DirNode):
                raise fail(errno.EISDIR, target)
        if goal.node is not None:
            self._drop(goal)
        del origin.folder.entries[origin.name]
        goal.folder.entries[goal.name] = origin.node

    # --- content

    def write_at(self, node: FileNode, position: int, data: bytes) -> int:
        """Write content, as much as fits; return how many bytes that is."""
        end = position + len(data)
        room = self._capacity - self.used
        grows = max(0, end - len(node.data))
        if grows > room:
            data = data[: max(0, len(data) - (grows - room))]
            if not data:
                raise fail(errno.ENOSPC)
            end = position + len(data)
            grows = max(0, end - len(node.data))
        if position > len(node.data):
            node.data += bytes(position - len(node.data))
        node.data[position:end] = data
        self.used += grows
        node.mtime = self.now()
        return len(data)

    def truncate(self, node: FileNode, size: int = 0) -> None:
        """Cut a file, or lengthen it with zeros."""
        grows = size - len(node.data)
        if grows > self._capacity - self.used:
            raise fail(errno.ENOSPC)
        self.used += grows
        if grows > 0:
            node.data += bytes(grows)
        else:
            del node.data[size:]
        node.mtime = self.now()

    @property
    def free(self) -> int:
        """Bytes that still fit."""
        return self._capacity - self.used

    def replace(self, place: Place, node: FileNode) -> None:
        """Put a finished file in its place, in one step."""
        self._writable(place)
        if place.node is not None:
            self._drop(place)
        place.folder.entries[place.name] = node
        place.folder.mtime = self.now()

    def forget(self, node: FileNode) -> None:
        """Give back the room of a file that never got its place."""
        self._forget(node)
