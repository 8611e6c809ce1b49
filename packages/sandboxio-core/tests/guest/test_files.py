"""Files of a sandbox, through the guest."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxio.errors import FileSystemError, OutputLimitExceeded, PathNotFound
from sandboxio.protocols import AsyncSandbox

KIB, MIB = 1 << 10, 1 << 20

NAMES = [
    "a b",
    "a'b\"c",
    "$(id)",
    "-delete",
    "line\nline",
    "tab\tname",
    "colon:name",
    "trailing ",
    " leading",
    ".hidden",
    "...",
    "😀",
    "back\\slash",
    "\r",
    "\u2028",
    "*",
    "n" * 255,
    os.fsdecode(b"\xff\xfe not utf-8"),
]


@pytest.fixture
def sandbox(shared_sandbox: AsyncSandbox) -> AsyncSandbox:
    """Nearly no test here needs one of its own."""
    return shared_sandbox


@pytest.fixture
async def folder(sandbox: AsyncSandbox) -> str:
    """An empty directory of the sandbox, by its relative path."""
    path = f"test-{os.urandom(8).hex()}"
    await sandbox.files.mkdir(path)
    return path


def inside(sandbox: AsyncSandbox, path: str) -> Path:
    """Where a file of the sandbox is on this host: an oracle beside the channel."""
    native: Any = sandbox.native
    found: Path = native.workdir / path
    return found


async def names(sandbox: AsyncSandbox, folder: str) -> list[str]:
    """The names in a directory, as the sandbox lists them."""
    return [info.path.removeprefix(f"{folder}/") for info in await sandbox.files.ls(folder)]


@pytest.mark.parametrize("name", NAMES)
async def test_any_name_is_data(sandbox: AsyncSandbox, folder: str, name: str) -> None:
    path = f"{folder}/{name}"
    await sandbox.files.write(path, b"content")
    assert inside(sandbox, path).read_bytes() == b"content"
    assert await sandbox.files.read(path) == b"content"
    (info,) = await sandbox.files.ls(folder)
    assert info.path == path
    assert info == await sandbox.files.stat(path)
    assert (await sandbox.run(["cat", "--", path])).stdout == "content"
    await sandbox.files.remove(path)
    assert await names(sandbox, folder) == []


@pytest.mark.parametrize("size", [0, 1, 96 * KIB, 128 * KIB, MIB, MIB + 1, 10 * MIB])
async def test_content_arrives_whole_both_ways(
    sandbox: AsyncSandbox, folder: str, size: int
) -> None:
    content = os.urandom(size)
    await sandbox.files.write(f"{folder}/file", content)
    assert inside(sandbox, f"{folder}/file").read_bytes() == content
    assert await sandbox.files.read(f"{folder}/file") == content


async def test_text_is_written_as_utf8(sandbox: AsyncSandbox, folder: str) -> None:
    await sandbox.files.write(f"{folder}/file", "héllo\r\n")
    assert await sandbox.files.read(f"{folder}/file") == b"h\xc3\xa9llo\r\n"


async def test_paths_mean_the_same_to_files_and_commands(
    sandbox: AsyncSandbox, folder: str
) -> None:
    await sandbox.run("echo command > made", cwd=folder)
    assert await sandbox.files.read(f"./{folder}//made") == b"command\n"
    absolute = str(inside(sandbox, f"{folder}/absolute"))
    await sandbox.files.write(absolute, "files")
    assert (await sandbox.run(["cat", "absolute"], cwd=folder)).stdout == "files"
    assert (await sandbox.files.ls(str(inside(sandbox, folder))))[0].path == absolute


async def test_listing_tells_what_things_are(sandbox: AsyncSandbox, folder: str) -> None:
    await sandbox.run("mkdir d; printf 123 > f; chmod 640 f; ln -s f l; ln -s d ld", cwd=folder)
    await sandbox.run("ln -s nowhere dangling; ln -s loop loop; mkfifo p; touch -d @77.5 f", cwd=folder)  # fmt: skip
    found = {info.path.removeprefix(f"{folder}/"): info for info in await sandbox.files.ls(folder)}
    assert list(found) == sorted(found)
    assert [name for name, info in found.items() if info.is_dir] == ["d"]
    assert [n for n, info in found.items() if info.is_link] == ["dangling", "l", "ld", "loop"]
    assert (found["f"].size, found["f"].mode, found["f"].mtime) == (3, 0o640, 77.5)


async def test_listing_of_ten_thousand_entries_is_whole(sandbox: AsyncSandbox, folder: str) -> None:
    for number in range(10_000):
        inside(sandbox, f"{folder}/{number:05}").touch()
    assert await names(sandbox, folder) == [f"{number:05}" for number in range(10_000)]
    await sandbox.files.remove(folder)
    assert not inside(sandbox, folder).exists()


async def test_listing_of_nothing_is_empty(sandbox: AsyncSandbox, folder: str) -> None:
    assert await sandbox.files.ls(folder) == []


async def test_listing_of_a_file_or_of_nothing_there_is_an_error(
    sandbox: AsyncSandbox, folder: str
) -> None:
    await sandbox.files.write(f"{folder}/file", "")
    with pytest.raises(FileSystemError, match="not a directory"):
        await sandbox.files.ls(f"{folder}/file")
    with pytest.raises(PathNotFound):
        await sandbox.files.ls(f"{folder}/missing")


async def test_forty_levels_are_made_listed_and_removed(sandbox: AsyncSandbox, folder: str) -> None:
    deep = folder + "/level" * 40
    await sandbox.files.mkdir(deep, parents=True)
    await sandbox.files.write(f"{deep}/file", "deep")
    assert await names(sandbox, deep) == ["file"]
    await sandbox.files.remove(f"{folder}/level")
    assert await names(sandbox, folder) == []


@pytest.mark.parametrize("path", ["a/b/c", "a/b/c/", "a//b/./c", "a/../b/c", "./a"])
async def test_parents_are_made(sandbox: AsyncSandbox, folder: str, path: str) -> None:
    for _ in range(2):  # what exists is fine
        await sandbox.files.mkdir(f"{folder}/{path}", parents=True)
        assert inside(sandbox, f"{folder}/{path}").is_dir()


async def test_directory_is_not_made_over_something(sandbox: AsyncSandbox, folder: str) -> None:
    await sandbox.files.write(f"{folder}/file", "")
    await sandbox.run(["ln", "-s", "nowhere", "link"], cwd=folder)
    for parents in (False, True):
        for name in ("file", "link"):
            with pytest.raises(FileSystemError, match="exists already"):
                await sandbox.files.mkdir(f"{folder}/{name}", parents=parents)
    with pytest.raises(FileSystemError, match="exists already"):
        await sandbox.files.mkdir(folder)
    with pytest.raises(FileSystemError, match="not a directory"):
        await sandbox.files.mkdir(f"{folder}/file/x", parents=True)
    with pytest.raises(PathNotFound):
        await sandbox.files.mkdir(f"{folder}/a/b")


async def test_write_replaces_the_content_and_keeps_mode_and_owner(
    sandbox: AsyncSandbox, folder: str
) -> None:
    path = inside(sandbox, f"{folder}/file")
    path.write_text("old")
    path.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(path, 12, 34)
    before = path.stat()
    await sandbox.files.write(f"{folder}/file", "new")
    after = path.stat()
    assert path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


async def test_new_file_has_the_default_mode(sandbox: AsyncSandbox, folder: str) -> None:
    await sandbox.files.write(f"{folder}/file", "")
    await sandbox.run(["touch", "other"], cwd=folder)
    mode = inside(sandbox, f"{folder}/file").stat().st_mode
    assert mode == inside(sandbox, f"{folder}/other").stat().st_mode


async def test_write_through_a_link_keeps_the_link(sandbox: AsyncSandbox, folder: str) -> None:
    await sandbox.run("mkdir d; echo old > d/file; ln -s d/file link; ln -s d/new dangling", cwd=folder)  # fmt: skip
    await sandbox.files.write(f"{folder}/link", "through")
    await sandbox.files.write(f"{folder}/dangling", "made")
    assert inside(sandbox, f"{folder}/link").readlink() == Path("d/file")
    assert inside(sandbox, f"{folder}/d/file").read_text() == "through"
    assert inside(sandbox, f"{folder}/d/new").read_text() == "made"
    assert await sandbox.files.read(f"{folder}/link") == b"through"


async def test_link_loop_is_an_error(sandbox: AsyncSandbox, folder: str) -> None:
    await sandbox.run(["ln", "-s", "loop", "loop"], cwd=folder)
    for attempt in (
        sandbox.files.read(f"{folder}/loop"),
        sandbox.files.write(f"{folder}/loop", ""),
        sandbox.files.ls(f"{folder}/loop"),
    ):
        with pytest.raises(FileSystemError, match="too many symbolic links"):
            await attempt
    assert (await sandbox.files.stat(f"{folder}/loop")).is_link


async def test_write_breaks_no_hard_link_partner(sandbox: AsyncSandbox, folder: str) -> None:
    await sandbox.run("echo one > a; ln a b", cwd=folder)
    await sandbox.files.write(f"{folder}/a", "two")
    assert await sandbox.files.read(f"{folder}/b") == b"one\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
async def test_read_only_file_is_not_overwritten(sandbox: AsyncSandbox, folder: str) -> None:
    await sandbox.run("echo old > file; chmod 400 file", cwd=folder)
    with pytest.raises(FileSystemError, match="permission denied"):
        await sandbox.files.write(f"{folder}/file", "new")
    assert await sandbox.files.read(f"{folder}/file") == b"old\n"


@pytest.mark.parametrize("path", ["missing/file", "missing/../file"])
async def test_parent_that_is_missing_is_an_error_for_files_as_for_commands(
    sandbox: AsyncSandbox, folder: str, path: str
) -> None:
    assert not (await sandbox.run(["touch", path], cwd=folder)).ok
    with pytest.raises(PathNotFound):
        await sandbox.files.write(f"{folder}/{path}", "")
    assert await names(sandbox, folder) == []


@pytest.mark.parametrize("path", ["", "/", "/.", "/new/", "/file/", "/file/."])
async def test_path_of_a_directory_is_not_written(
    sandbox: AsyncSandbox, folder: str, path: str
) -> None:
    await sandbox.files.write(f"{folder}/file", "old")
    with pytest.raises(FileSystemError):
        await sandbox.files.write(folder + path, "new")
    assert await names(sandbox, folder) == ["file"]
    assert await sandbox.files.read(f"{folder}/file") == b"old"


async def test_name_that_is_too_long_is_an_error(sandbox: AsyncSandbox, folder: str) -> None:
    for attempt in (
        sandbox.files.write(f"{folder}/{'n' * 256}", ""),
        sandbox.files.mkdir(f"{folder}/{'n' * 256}"),
        sandbox.files.read("x/" * 3000),
    ):
        with pytest.raises(FileSystemError, match="too long"):
            await attempt


async def test_read_of_a_directory_or_of_nothing_is_an_error(
    sandbox: AsyncSandbox, folder: str
) -> None:
    for path in (folder, "/"):
        with pytest.raises(FileSystemError, match="it is a directory"):
            await sandbox.files.read(path)
    with pytest.raises(PathNotFound):
        await sandbox.files.read(f"{folder}/missing")


async def test_devices_and_pipes_are_refused_and_not_touched(
    sandbox: AsyncSandbox, folder: str
) -> None:
    await sandbox.run(["mkfifo", "pipe"], cwd=folder)
    for path in ("/dev/zero", "/dev/null", f"{folder}/pipe"):
        with pytest.raises(FileSystemError, match="not a regular file"):
            await sandbox.files.read(path)
        with pytest.raises(FileSystemError, match="not a regular file"):
            await sandbox.files.write(path, "")
    assert stat.S_ISFIFO(inside(sandbox, f"{folder}/pipe").stat().st_mode)


async def test_write_where_files_cannot_be_made_is_an_error(sandbox: AsyncSandbox) -> None:
    with pytest.raises(FileSystemError):
        await sandbox.files.write("/proc/new", "")
    with pytest.raises(FileSystemError):
        await sandbox.files.write("/proc/self/comm", "x")


async def test_files_without_a_size_are_read_to_their_end(sandbox: AsyncSandbox) -> None:
    assert b"MemTotal" in await sandbox.files.read("/proc/meminfo")


async def test_file_that_grows_is_read_to_the_end_that_it_had(
    sandbox: AsyncSandbox, folder: str
) -> None:
    path = inside(sandbox, f"{folder}/growing")
    path.write_bytes(b"x" * (4 * MIB))
    async with sandbox.stream(["sh", "-c", "while :; do echo more >> growing; done"], cwd=folder):
        size = path.stat().st_size
        read = await sandbox.files.read(f"{folder}/growing")
    assert size <= len(read) <= path.stat().st_size
    assert read.startswith(b"x" * (4 * MIB))


async def test_file_larger_than_a_call_may_hold_is_refused_at_once(
    sandbox: AsyncSandbox, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_MAX_OUTPUT_MB", "1")
    await sandbox.files.write(f"{folder}/fits", b"x" * MIB)
    await sandbox.files.write(f"{folder}/not", b"x" * (MIB + 1))
    assert len(await sandbox.files.read(f"{folder}/fits")) == MIB
    with pytest.raises(OutputLimitExceeded, match="download"):
        await sandbox.files.read(f"{folder}/not")
    assert (await sandbox.run(["true"])).ok


async def test_removal_takes_a_link_and_not_what_it_points_to(
    sandbox: AsyncSandbox, folder: str
) -> None:
    await sandbox.run("mkdir d; echo 1 > d/f; ln -s d l; ln -s d/f lf; mkdir x; ln -s ../d x/l", cwd=folder)  # fmt: skip
    for name in ("l/", "lf", "x"):
        await sandbox.files.remove(f"{folder}/{name}")
    assert await names(sandbox, folder) == ["d"]
    assert await sandbox.files.read(f"{folder}/d/f") == b"1\n"


@pytest.mark.parametrize("path", [".", "./", "..", "/", "//", "sub/..", "", "{home}", "{above}"])
async def test_working_directory_and_what_it_is_in_cannot_be_removed(
    sandbox: AsyncSandbox, folder: str, path: str
) -> None:
    home = inside(sandbox, ".")
    path = path.format(home=home, above=home.parent) or f"{folder}/../../{home.name}"
    await sandbox.files.mkdir("sub", parents=True)
    with pytest.raises(FileSystemError, match="cannot be removed"):
        await sandbox.files.remove(path)
    assert inside(sandbox, folder).is_dir()


async def test_removal_of_nothing_is_an_error(sandbox: AsyncSandbox, folder: str) -> None:
    with pytest.raises(PathNotFound):
        await sandbox.files.remove(f"{folder}/missing")


async def test_cancelled_write_leaves_what_was_there_and_nothing_else(
    sandbox: AsyncSandbox, folder: str, tmp_path: Path
) -> None:
    await sandbox.files.write(f"{folder}/file", "old")
    source = tmp_path / "large"
    with source.open("wb") as file:
        file.truncate(1 << 40)  # sparse, and more than could ever be sent
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.files.upload, source, f"{folder}/file")
        with anyio.fail_after(20):
            while len(list(inside(sandbox, folder).iterdir())) < 2:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        group.cancel_scope.cancel()
    # The upload has returned, so the guest has undone it: no half file, no hidden one.
    assert [path.name for path in inside(sandbox, folder).iterdir()] == ["file"]
    assert await sandbox.files.read(f"{folder}/file") == b"old"
    assert (await sandbox.run(["true"])).ok


async def test_upload_keeps_mode_and_time_and_download_the_executable_bit(
    sandbox: AsyncSandbox, folder: str, tmp_path: Path
) -> None:
    tool = tmp_path / "a tool"
    tool.write_text("#!/bin/sh\necho run\n")
    tool.chmod(0o750)
    os.utime(tool, (1_000_000_000, 1_000_000_000.25))
    await sandbox.files.upload(tool, f"{folder}/tool")
    there = inside(sandbox, f"{folder}/tool").stat()
    assert (stat.S_IMODE(there.st_mode), there.st_mtime) == (0o750, 1_000_000_000.25)
    assert (await sandbox.run(["./tool"], cwd=folder)).stdout == "run\n"
    await sandbox.files.download(f"{folder}/tool", tmp_path / "back")
    back = (tmp_path / "back").stat()
    assert back.st_mtime == 1_000_000_000.25
    assert back.st_mode & 0o100
