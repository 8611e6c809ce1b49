"""Uploads and downloads."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from sandboxio.errors import ConfigurationError, FileSystemError, PathNotFound
from sandboxio.models import Capability
from sandboxio.protocols import AsyncSandbox

from ._attempts import attempt, interrupt, spread
from ._base import ContractBase, Names
from ._clause_mark import clause, needs
from ._filing import content
from ._hostfolder import names_of

__all__ = ["TransferringContract"]

MIB = 1 << 20


@needs(Capability.UPLOAD_DOWNLOAD)
class TransferringContract(ContractBase):
    """`files.upload()` and `files.download()`."""

    @pytest.fixture
    async def remote(self, sandbox: AsyncSandbox, name: Names) -> AsyncGenerator[str, None]:
        """A directory of the sandbox for this test alone."""
        path = name("remote")
        await sandbox.files.mkdir(path)
        yield path
        await attempt(sandbox.files.remove(path))

    @clause("transfer.round-trip")
    @pytest.mark.parametrize("size", [0, 1, 128 << 10, 10 * MIB])
    async def test_transfer_keeps_every_byte(
        self, sandbox: AsyncSandbox, remote: str, tmp_path: Path, size: int
    ) -> None:
        """If this fails, look for text mode, and for transfers that are cut."""
        source, back = tmp_path / "with a space", tmp_path / "back 'again'"
        source.write_bytes(content(size))
        await sandbox.files.upload(source, f"{remote}/file")
        assert (await sandbox.files.stat(f"{remote}/file")).size == size
        await sandbox.files.download(f"{remote}/file", str(back))
        assert back.read_bytes() == content(size)
        assert names_of(tmp_path) == ["back 'again'", "with a space"]

    @clause("transfer.metadata")
    async def test_transfer_keeps_mode_and_time(
        self, sandbox: AsyncSandbox, remote: str, tmp_path: Path
    ) -> None:
        """If this fails, an uploaded program cannot be run, or a build tool rebuilds all."""
        source, back = tmp_path / "program", tmp_path / "back"
        source.write_text("#!/bin/sh\nexit 3\n")
        source.chmod(0o755)
        os.utime(source, (1_600_000_000, 1_600_000_000))
        await sandbox.files.upload(source, f"{remote}/program")
        assert (await sandbox.run([f"{remote}/program"])).exit_code == 3
        await sandbox.files.download(f"{remote}/program", back)
        assert back.stat().st_mode & 0o100
        assert back.stat().st_mtime == 1_600_000_000

    @clause("transfer.host-links")
    async def test_links_of_the_host_are_not_followed(
        self, sandbox: AsyncSandbox, remote: str, tmp_path: Path
    ) -> None:
        """If this fails, a link of the host leads a transfer to a file that was not meant."""
        secret, link = tmp_path / "secret", tmp_path / "link"
        secret.write_bytes(b"secret")
        link.symlink_to(secret)
        with pytest.raises(FileSystemError):
            await sandbox.files.upload(link, f"{remote}/file")
        assert await sandbox.files.ls(remote) == []
        await sandbox.files.write(f"{remote}/file", b"downloaded")
        await sandbox.files.download(f"{remote}/file", link)
        assert secret.read_bytes() == b"secret"
        assert not link.is_symlink()
        assert link.read_bytes() == b"downloaded"

    @clause("transfer.host-kinds")
    async def test_other_kinds_of_local_files_are_refused(
        self, sandbox: AsyncSandbox, remote: str, tmp_path: Path
    ) -> None:
        """If this fails, a pipe or a device of the host is read, which may never end."""
        folder, pipe = tmp_path / "folder", tmp_path / "pipe"
        folder.mkdir()
        os.mkfifo(pipe)
        await sandbox.files.write(f"{remote}/file", b"x")
        for call in (
            sandbox.files.upload(folder, f"{remote}/other"),
            sandbox.files.upload(pipe, f"{remote}/other"),
            sandbox.files.upload("/dev/zero", f"{remote}/other"),
            sandbox.files.download(f"{remote}/file", folder),
        ):
            error = await attempt(call)
            assert isinstance(error, FileSystemError), repr(error)
        wrongs: tuple[Any, ...] = (None, 7, "")
        for wrong in wrongs:
            error = await attempt(sandbox.files.upload(wrong, f"{remote}/other"))
            assert isinstance(error, ConfigurationError), repr(error)
        assert [item.path for item in await sandbox.files.ls(remote)] == [f"{remote}/file"]
        assert names_of(folder) == []

    @clause("transfer.host-missing")
    async def test_missing_local_path_is_path_not_found(
        self, sandbox: AsyncSandbox, remote: str, tmp_path: Path
    ) -> None:
        """If this fails, a builtin `FileNotFoundError` comes out."""
        await sandbox.files.write(f"{remote}/file", b"x")
        with pytest.raises(PathNotFound):
            await sandbox.files.upload(tmp_path / "missing", f"{remote}/other")
        with pytest.raises(PathNotFound):
            await sandbox.files.download(f"{remote}/file", tmp_path / "missing" / "file")

    @clause("transfer.cancelled-upload")
    async def test_cancelled_upload_leaves_no_half_file(
        self, sandbox: AsyncSandbox, remote: str, tmp_path: Path
    ) -> None:
        """If this fails, a file is written in place; write beside it and rename."""
        source = tmp_path / "source"
        source.write_bytes(content(8 * MIB))
        whole = await interrupt(lambda: sandbox.files.upload(source, f"{remote}/file"), at=0)
        assert whole.error is None, repr(whole.error)
        await sandbox.files.remove(f"{remote}/file")
        for at in spread(whole.waits, self.cancel_points):
            cut = await interrupt(lambda: sandbox.files.upload(source, f"{remote}/file"), at)
            assert cut.error is None, f"cancelled at wait {at}, it raised {cut.error!r}"
            left = (await sandbox.run(self.probes.list_names(remote))).stdout.split()
            assert left in ([], ["file"]), f"cancelled at wait {at}, it left {left}"
            if left:
                size = (await sandbox.files.stat(f"{remote}/file")).size
                assert size == 8 * MIB, f"cancelled at wait {at}, it left {size} bytes"
                await sandbox.files.remove(f"{remote}/file")

    @clause("transfer.failed-download")
    async def test_failed_download_leaves_what_was_there(
        self, sandbox: AsyncSandbox, remote: str, tmp_path: Path
    ) -> None:
        """If this fails, the target is opened before all has arrived."""
        target = tmp_path / "target"
        target.write_bytes(b"old")
        with pytest.raises(PathNotFound):
            await sandbox.files.download(f"{remote}/missing", target)
        assert (names_of(tmp_path), target.read_bytes()) == (["target"], b"old")
        new = content(8 * MIB)
        await sandbox.files.write(f"{remote}/file", new)
        whole = await interrupt(lambda: sandbox.files.download(f"{remote}/file", target), at=0)
        assert whole.error is None, repr(whole.error)
        for at in spread(whole.waits, self.cancel_points):
            target.write_bytes(b"old")
            cut = await interrupt(lambda: sandbox.files.download(f"{remote}/file", target), at)
            assert cut.error is None, f"cancelled at wait {at}, it raised {cut.error!r}"
            data = target.read_bytes()
            assert data in (b"old", new), f"cancelled at wait {at}, it left {len(data)} bytes"
            assert names_of(tmp_path) == ["target"], f"cancelled at wait {at}"

    @clause("transfer.event-loop")
    async def test_event_loop_goes_on_during_a_transfer(
        self, sandbox: AsyncSandbox, remote: str, tmp_path: Path
    ) -> None:
        """If this fails, the host's file is read, or the sandbox written to, on the event loop."""
        source = tmp_path / "source"
        source.write_bytes(content(32 * MIB))
        turns = during = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        async with anyio.create_task_group() as group:
            group.start_soon(count)
            await sandbox.files.upload(source, f"{remote}/file")
            during = turns
            group.cancel_scope.cancel()
        assert during >= 10, f"other tasks had {during} turns while 32 MiB were uploaded"
