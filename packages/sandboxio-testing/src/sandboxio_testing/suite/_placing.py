"""Files in odd places, of odd kinds, and what of the host is never among them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from sandboxio.errors import FileSystemError, SandboxError
from sandboxio.models import Capability
from sandboxio.protocols import AsyncSandbox

from ._attempts import attempt
from ._base import ContractBase, Names
from ._clause_mark import clause, needs
from ._hostfolder import names_of
from ._pulse import Pulse

__all__ = ["PlacingContract"]

ELSEWHERE = ("/tmp", "/dev/shm", "/proc", "/sys", "/etc")  # noqa: S108 - the sandbox's own
"""Directories that are of another kind than the working directory, or no real ones at all."""


@needs(Capability.FILESYSTEM)
class PlacingContract(ContractBase):
    """What `sandbox.files` makes of places and kinds that are not ordinary."""

    @pytest.fixture
    async def nook(self, sandbox: AsyncSandbox, name: Names) -> AsyncGenerator[str, None]:
        """A directory of the sandbox for this test alone."""
        path = name("nook")
        await sandbox.files.mkdir(path)
        yield path
        await attempt(sandbox.files.remove(path))

    @clause("files.pipe-refused")
    async def test_named_pipe_is_not_waited_for(self, sandbox: AsyncSandbox, nook: str) -> None:
        """If this fails, opening a pipe waits for a writer that never comes."""
        made = await sandbox.run(self.probes.make_pipe(f"{nook}/pipe"))
        assert made.exit_code == 0, f"the probe make_pipe() failed: {made}"
        for call in (
            sandbox.files.read(f"{nook}/pipe"),
            sandbox.files.write(f"{nook}/pipe", b"x"),
        ):
            error = await attempt(call)
            assert isinstance(error, FileSystemError), repr(error)
        assert (await sandbox.files.stat(f"{nook}/pipe")).is_dir is False
        await sandbox.files.remove(f"{nook}/pipe")
        assert await sandbox.files.ls(nook) == []

    @clause("files.growing")
    async def test_growing_file_is_read_to_an_end(
        self, sandbox: AsyncSandbox, nook: str, pulse: Pulse
    ) -> None:
        """If this fails, a read runs after a writer, or fails because the size has changed."""
        path = f"{nook}/growing"
        await sandbox.run(self.probes.leave_a_daemon(path))
        await pulse.begun(path)
        sizes: list[int] = []
        for _ in range(10):
            data = await sandbox.files.read(path)
            assert data.strip(b"\n") == b"", data
            sizes.append(len(data))
        assert sizes == sorted(sizes)
        assert sizes[0] > 0
        await pulse.lives(path)

    @clause("files.visible")
    @pytest.mark.parametrize("place", ELSEWHERE)
    async def test_write_elsewhere_is_refused_or_seen(
        self, sandbox: AsyncSandbox, name: Names, place: str
    ) -> None:
        """If this fails, a file is written below a mount, or beside the sandbox that runs."""
        path = f"{place}/{name('file')}"
        error = await attempt(sandbox.files.write(path, b"content"))
        seen = await sandbox.run(self.probes.show_file(path))
        if error is None:
            assert seen.stdout == "content", f"written to {path}, and not seen inside"
            await sandbox.files.remove(path)
            assert (await sandbox.run(self.probes.is_there(path))).exit_code == 1
        else:
            assert isinstance(error, SandboxError), repr(error)
            assert (await sandbox.run(self.probes.is_there(path))).exit_code == 1

    @clause("files.no-host-paths")
    async def test_path_of_the_host_means_nothing(
        self, sandbox: AsyncSandbox, nook: str, name: Names, tmp_path: Path
    ) -> None:
        """If this fails, a path or a link is resolved on this host."""
        mine = tmp_path / name("of-the-host")
        mine.write_bytes(b"of the host")
        await sandbox.run(self.probes.link(str(mine), f"{nook}/link"))
        for path in (str(mine), f"{nook}/link", f"{'../' * 30}{str(mine).lstrip('/')}"):
            error = await attempt(sandbox.files.read(path))
            assert isinstance(error, FileSystemError), f"{path}: {error!r}"
            await attempt(sandbox.files.write(path, b"of the sandbox"))
            await attempt(sandbox.files.remove(path))
        assert mine.read_bytes() == b"of the host"
        assert names_of(tmp_path) == [mine.name]

    @clause("files.read-only")
    async def test_read_only_file_is_overwritten_as_a_whole_or_not_at_all(
        self, sandbox: AsyncSandbox, nook: str
    ) -> None:
        """If this fails, a read-only file becomes writable, or half of it is written."""
        path = f"{nook}/file"
        await sandbox.files.write(path, b"old")
        await sandbox.run(self.probes.change_mode("444", path))
        error = await attempt(sandbox.files.write(path, b"new content"))
        assert error is None or isinstance(error, FileSystemError), repr(error)
        assert await sandbox.files.read(path) == (b"new content" if error is None else b"old")
        assert (await sandbox.run(self.probes.mode_of(path))).stdout.strip() == "444"
        assert [item.path for item in await sandbox.files.ls(nook)] == [path]
