"""The files of a fake sandbox as the engine drives them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager

from anyio.lowlevel import checkpoint

from sandboxio.errors import DiskFull, SandboxGone
from sandboxio.models import FileInfo, NetworkPolicy
from sandboxio.spi import FileMeta, file_error

from .calls import Call
from .machine import WORKDIR, Machine
from .nodes import DirNode, FileNode, LinkNode, Node
from .world import World

__all__ = ["MachineFiles"]

PIECE = 1 << 18
"""Bytes of a file that are handed over at once."""


class MachineFiles:
    """The files of one machine; the sandbox of that machine extends it."""

    def __init__(
        self, world: World, sandbox_id: str, network: NetworkPolicy, machine: Machine
    ) -> None:
        self._world = world
        self._clock = world.clock
        self._network = network
        self.id = sandbox_id
        self.gone: str | None = None
        self.machine = machine

    @asynccontextmanager
    async def read(self, path: str) -> AsyncGenerator[tuple[FileMeta, AsyncIterator[bytes]], None]:
        """Open a regular file."""
        with self._clock.call():
            await self._file_call("read", path)
            with self._clock.lock, self._files(path):
                node = self.machine.tree.file(path, WORKDIR)
                meta = FileMeta(mode=node.mode, mtime=node.mtime, size=node.size)
            yield meta, self._pieces(node, meta.size or 0)

    async def _pieces(self, node: FileNode, size: int) -> AsyncGenerator[bytes, None]:
        for start in range(0, size, PIECE):
            await checkpoint()
            self._check()
            yield bytes(node.data[start : min(size, start + PIECE)])

    async def write(self, path: str, chunks: AsyncIterator[bytes], meta: FileMeta) -> None:
        """Write a file: beside its place, and into it at the end."""
        tree = self.machine.tree
        with self._clock.call():
            await checkpoint()
            with self._clock.lock:
                self._check_files(grows=True)
            pieces = FileNode(0o644, tree.now())
            try:
                with self._files(path):
                    tree.place_of_file(path, WORKDIR)
                async for chunk in chunks:
                    with self._clock.lock, self._files(path):
                        self._check()
                        if tree.write_at(pieces, len(pieces.data), chunk) < len(chunk):
                            raise DiskFull(
                                f"No space is left in the sandbox for {path!r}.", limit="disk_mb"
                            )
                with self._clock.lock, self._files(path):
                    self._check()
                    self._note_file("write", path, bytes(pieces.data))
                    self._place(path, pieces, meta)
            except BaseException:
                tree.forget(pieces)
                raise

    def _place(self, path: str, node: FileNode, meta: FileMeta) -> None:
        place = self.machine.tree.place_of_file(path, WORKDIR)
        if meta.mode is not None:
            node.mode = meta.mode
        elif place.node is not None:
            node.mode = place.node.mode
        if meta.mtime is not None:
            node.mtime = meta.mtime
        self.machine.tree.replace(place, node)

    async def stat(self, path: str) -> FileInfo:
        """Describe a path, without following a final link."""
        with self._clock.call():
            await self._file_call("stat", path)
            with self._clock.lock, self._files(path):
                return _info(path, self.machine.tree.find(path, WORKDIR, follow=False))
        raise AssertionError("unreachable")

    async def ls(self, path: str) -> list[FileInfo]:
        """List a directory, sorted by path."""
        with self._clock.call():
            await self._file_call("ls", path)
            with self._clock.lock, self._files(path):
                entries = self.machine.tree.directory(path, WORKDIR).entries
                prefix = "" if path in ("", ".") else path.rstrip("/") + "/"
                infos = [_info(prefix + name, node) for name, node in entries.items()]
                return sorted(infos, key=lambda info: info.path)
        raise AssertionError("unreachable")

    async def mkdir(self, path: str, *, parents: bool) -> None:
        """Make a directory."""
        with self._clock.call():
            await self._file_call("mkdir", path)
            with self._clock.lock, self._files(path):
                self.machine.tree.mkdir(path, WORKDIR, parents=parents)

    async def remove(self, path: str) -> None:
        """Remove a path and all below it."""
        with self._clock.call():
            await self._file_call("remove", path)
            with self._clock.lock, self._files(path):
                self.machine.tree.remove(path, WORKDIR, WORKDIR)

    async def _file_call(self, op: str, path: str) -> None:
        await checkpoint()
        with self._clock.lock:
            self._check_files(grows=op == "mkdir")
            self._note_file(op, path)

    def _note_file(self, op: str, path: str, data: bytes | None = None) -> None:
        self._note(
            Call(
                op=op,
                at=self._now(),
                sandbox_id=self.id,
                path=path,
                data=data,
                network=self._network,
            )
        )

    def _check_files(self, *, grows: bool) -> None:
        self._check()
        self._world.faults.check_files(grows=grows)

    @contextmanager
    def _files(self, path: str) -> Generator[None, None, None]:
        try:
            yield
        except OSError as error:
            raise file_error(error.errno or 0, path) from error

    # --- all of it

    def _now(self) -> float:
        return self._clock.current_time()

    def _note(self, call: Call) -> None:
        self._world.calls.append(call)

    def _check(self) -> None:
        if self.gone is not None:
            raise SandboxGone(f"The sandbox {self.id} no longer exists: {self.gone}.")
        self._world.faults.check_sandbox()


def _info(path: str, node: Node) -> FileInfo:
    return FileInfo(
        path=path,
        size=node.size,
        is_dir=isinstance(node, DirNode),
        is_link=isinstance(node, LinkNode),
        mode=node.mode,
        mtime=node.mtime,
    )
