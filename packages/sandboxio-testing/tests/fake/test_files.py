"""Files of the fake: the same for `files` and for commands, and with the errors of a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxio import DiskFull, FileSystemError, PathNotFound, Resources
from sandboxio_testing import FakeBackend

NAMES = [
    "a b",
    "quote's",
    '"',
    "$(id)",
    "-rf",
    "new\nline",
    "tab\t",
    "co:lon",
    "end ",
    "x" * 255,
    "🚀",
    "..a",
]


@pytest.mark.parametrize("name", NAMES)
async def test_any_name_is_the_same_file_to_files_and_to_commands(
    name: str, sbx_fake: FakeBackend
) -> None:
    sandbox = sbx_fake.sandbox
    await sandbox.files.write(name, b"\x00\xff")
    assert (await sandbox.run(["wc", "-c", "--", name])).stdout.split()[0] == "2"
    assert [info.path for info in await sandbox.files.ls()] == [name]
    await sandbox.files.remove(name)
    assert await sandbox.files.ls() == []


@pytest.mark.parametrize(
    ("setup", "operation", "error"),
    [
        ("true", "read missing", PathNotFound),
        ("mkdir d", "read d", FileSystemError),
        ("true", "read /dev/zero", FileSystemError),
        ("echo x > f; chmod 000 f", "read f", FileSystemError),
        ("ln -s loop loop", "read loop", FileSystemError),
        ("ln -s nowhere link", "read link", PathNotFound),
        ("mkdir d", "write d", FileSystemError),
        ("true", "write missing/f", PathNotFound),
        ("echo x > f", "write f/g", FileSystemError),
        ("echo x > f; chmod 400 f", "write f", FileSystemError),
        ("true", "write /bin/new", FileSystemError),
        ("true", "write /proc/new", FileSystemError),
        ("echo x > f", "ls f", FileSystemError),
        ("true", "ls missing", PathNotFound),
        ("mkdir d", "mkdir d", FileSystemError),
        ("true", "mkdir a/b", PathNotFound),
        ("true", "remove missing", PathNotFound),
        ("true", "remove .", FileSystemError),
        ("true", "remove /work", FileSystemError),
        ("true", "stat missing", PathNotFound),
        ("true", "write " + "x" * 256, FileSystemError),
    ],
)
async def test_operation_fails_as_on_a_real_system(
    setup: str, operation: str, error: type[FileSystemError], sbx_fake: FakeBackend
) -> None:
    sandbox = sbx_fake.sandbox
    assert (await sandbox.run(setup)).ok
    name, path = operation.split(" ", 1)
    arguments = (path, "data") if name == "write" else (path,)
    with pytest.raises(FileSystemError) as caught:
        await getattr(sandbox.files, name)(*arguments)
    assert type(caught.value) is error
    assert caught.value.path == path


async def test_link_stays_a_link_and_mode_and_hard_link_are_kept(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox
    await sandbox.run("echo old > f; chmod 750 f; ln -s f link; ln f hard; mkdir d; ln -s d dlink")
    await sandbox.files.write("link", "new")
    assert await sandbox.files.read("f") == b"new"
    info = await sandbox.files.stat("link")
    assert (info.is_link, info.is_dir) == (True, False)
    assert (await sandbox.files.stat("f")).mode == 0o750
    assert (await sandbox.files.stat("dlink")).is_dir is False
    await sandbox.files.write("dlink/inside", "x")
    assert await sandbox.files.read("d/inside") == b"x"
    await sandbox.files.remove("dlink")
    assert (await sandbox.files.stat("d")).is_dir


async def test_upload_and_download_keep_mode_and_time(
    sbx_fake: FakeBackend, tmp_path: Path
) -> None:
    local = tmp_path / "script"
    local.write_bytes(b"#!/bin/sh\necho ran\n")
    local.chmod(0o755)
    sandbox = sbx_fake.sandbox
    await sandbox.files.upload(local, "script")
    assert (await sandbox.run(["./script"])).stdout == "ran\n"
    info = await sandbox.files.stat("script")
    assert info.mtime == pytest.approx(local.stat().st_mtime)
    await sandbox.files.download("script", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == local.read_bytes()
    assert (tmp_path / "back").stat().st_mode & 0o100


async def test_full_disk_refuses_and_leaves_the_old_content(sbx_fake: FakeBackend) -> None:
    async with await sbx_fake.create(resources=Resources(disk_mb=1)) as sandbox:
        await sandbox.files.write("f", "old")
        with pytest.raises(DiskFull):
            await sandbox.files.write("f", b"x" * (2 << 20))
        assert await sandbox.files.read("f") == b"old"
        assert [info.path for info in await sandbox.files.ls()] == ["f"]
        await sandbox.files.write("g", b"x" * (900 << 10))
        await sandbox.files.remove("g")
        await sandbox.files.write("h", b"x" * (900 << 10))


async def test_files_have_the_time_of_the_clock(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox
    await sandbox.files.write("a", "")
    await sandbox.run("sleep 60")
    await sandbox.files.write("b", "")
    first, second = await sandbox.files.stat("a"), await sandbox.files.stat("b")
    assert first.mtime is not None
    assert second.mtime == first.mtime + 60
    assert (await sandbox.run("date +%s")).stdout == f"{second.mtime:.0f}\n"
