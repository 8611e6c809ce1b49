"""The host's side of a transfer: nothing is followed, and nothing half appears."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxio.errors import FileSystemError, PathNotFound, ProviderError
from sandboxio.protocols import AsyncSandbox
from sandboxio.spi import DriverBackend, FileMeta

Act = Callable[[], Awaitable[Any]]
Fail = Callable[[BaseException], Act]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, 5_000_000])
async def test_file_makes_the_round_trip(sandbox: AsyncSandbox, tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    source = tmp_path / "a file with spaces"
    source.write_bytes(content)
    await sandbox.files.upload(source, "there")
    assert await sandbox.files.read("there") == content
    await sandbox.files.download("there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content
    assert names(tmp_path) == ["a file with spaces", "back"]


async def test_link_is_not_uploaded(sandbox: AsyncSandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    (tmp_path / "link").symlink_to("secret")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(FileSystemError, match="symbolic link") as caught:
            await sandbox.files.upload(tmp_path / name, "there")
        assert "resolve" in caught.value.hint
    assert await sandbox.files.ls() == []


async def test_what_is_no_regular_file_is_not_uploaded(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(FileSystemError, match="not a regular file"):
            await sandbox.files.upload(path, "there")
    with pytest.raises(PathNotFound, match="on the host"):
        await sandbox.files.upload(tmp_path / "missing", "there")
    assert await sandbox.files.ls() == []


async def test_link_is_replaced_by_a_download_and_not_followed(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    await sandbox.files.write("file", "from the sandbox")
    (tmp_path / "precious").write_text("of the host")
    (tmp_path / "link").symlink_to("precious")
    (tmp_path / "dangling").symlink_to("made")
    for name in ("link", "dangling"):
        await sandbox.files.download("file", tmp_path / name)
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == "from the sandbox"
    assert (tmp_path / "precious").read_text() == "of the host"
    assert not (tmp_path / "made").exists()


async def test_download_to_a_directory_or_into_nothing_is_an_error(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    await sandbox.files.write("file", "x")
    with pytest.raises(FileSystemError, match="is a directory"):
        await sandbox.files.download("file", tmp_path)
    with pytest.raises(PathNotFound, match="on the host"):
        await sandbox.files.download("file", tmp_path / "missing" / "file")
    assert names(tmp_path) == []


async def test_download_of_nothing_leaves_what_was_there(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    for path in ("missing", "."):
        with pytest.raises(FileSystemError):
            await sandbox.files.download(path, target)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["target"]


async def test_setuid_bit_of_a_sandbox_does_not_come_to_the_host(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    await sandbox.run("echo x > tool; chmod 6755 tool")
    await sandbox.files.download("tool", tmp_path / "tool")
    mode = (tmp_path / "tool").stat().st_mode
    assert mode & 0o7000 == 0
    assert mode & 0o111


@pytest.mark.parametrize("way", ["cancelled", "failed"])
async def test_download_that_does_not_end_leaves_what_was_there_and_nothing_else(
    backend: DriverBackend, driver: Any, tmp_path: Path, hang: Act, fail: Fail, way: str
) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    sandbox = await backend.create()
    driver.sandboxes[-1].acts["chunk"] = hang if way == "cancelled" else fail(OSError("reset"))
    if way == "failed":
        with pytest.raises(ProviderError, match="reset"):
            await sandbox.files.download("file", target)
    else:
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.files.download, "file", target)
            await anyio.wait_all_tasks_blocked()
            assert len(names(tmp_path)) == 2  # the half of it has another name
            group.cancel_scope.cancel()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["target"]
    await sandbox.kill()


@pytest.mark.parametrize("mtime", [0.0, 1e9, -1e9, 2.0**40])
async def test_any_time_that_a_sandbox_claims_is_taken_or_refused_cleanly(
    backend: DriverBackend, driver: Any, tmp_path: Path, mtime: float
) -> None:
    sandbox = await backend.create()

    async def claim() -> FileMeta:
        return FileMeta(mode=0o755, mtime=mtime, size=7)

    driver.sandboxes[-1].acts["read"] = claim
    await sandbox.files.download("file", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"content"
    await sandbox.kill()
