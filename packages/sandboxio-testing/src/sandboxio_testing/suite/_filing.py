"""Files: content, names, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from sandboxio.errors import (
    ConfigurationError,
    FileSystemError,
    OutputLimitExceeded,
    PathNotFound,
)
from sandboxio.models import Capability
from sandboxio.protocols import AsyncSandbox

from ._attempts import attempt, interrupt, spread
from ._base import ContractBase, Names
from ._clause_mark import clause, needs

__all__ = ["FilingContract"]

KIB = 1 << 10
MIB = 1 << 20

SIZES = (0, 1, 4095, 64 * KIB, 96 * KIB, 128 * KIB + 1, MIB, 5 * MIB)

ODD_NAMES = (
    "two words",
    "'quotes\"",
    "$(id)",
    "`id`",
    "-rf",
    "--",
    "*",
    "new\nline",
    "tab\tand:colon;",
    "carriage\rreturn",
    "line\u2028separator",
    "trailing ",
    " leading",
    ".hidden",
    "...",
    "back\\slash",
    "日本-👩🏽\u200d🚀",
    "x" * 255,
)

BAD_PATHS: tuple[Any, ...] = ("", "a\0b", None, 7, b"bytes")


def content(size: int) -> bytes:
    """Return bytes of every value, not the same in each block."""
    block = bytes(range(256)) + b"\r\n\0"
    return (block * (size // len(block) + 1))[:size]


@needs(Capability.FILESYSTEM)
class FilingContract(ContractBase):
    """`sandbox.files`, without transfers to and from the host's files."""

    @pytest.fixture
    async def home(self, sandbox: AsyncSandbox, name: Names) -> AsyncGenerator[str, None]:
        """A directory of the sandbox for this test alone."""
        path = name("home")
        await sandbox.files.mkdir(path)
        yield path
        await attempt(sandbox.files.remove(path))

    async def names_in(self, sandbox: AsyncSandbox, path: str) -> list[str]:
        """List a directory by a command, hidden names included."""
        result = await sandbox.run(self.probes.list_names(path))
        return result.stdout.splitlines()

    # ----- content

    @clause("files.round-trip")
    @pytest.mark.parametrize("size", SIZES)
    async def test_content_is_read_back(self, sandbox: AsyncSandbox, home: str, size: int) -> None:
        """If this fails, look for text mode, and for writes that are cut at a buffer's size."""
        data = content(size)
        await sandbox.files.write(f"{home}/file", data)
        back = await sandbox.files.read(f"{home}/file")
        assert len(back) == size
        assert back == data

    @clause("files.text")
    async def test_text_is_written_as_utf8(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, the encoding depends on the host, or newlines are translated."""
        await sandbox.files.write(f"{home}/file", "ümlaut\r\n日本")
        assert await sandbox.files.read(f"{home}/file") == "ümlaut\r\n日本".encode()

    @clause("files.odd-names")
    @pytest.mark.parametrize("odd", ODD_NAMES, ids=range(len(ODD_NAMES)))
    async def test_every_name_works(self, sandbox: AsyncSandbox, home: str, odd: str) -> None:
        """If this fails, names go through a shell, an argument list, or a listing with lines."""
        bystander, path = f"{home}/bystander", f"{home}/{odd}"
        await sandbox.files.write(bystander, b"untouched")
        await sandbox.files.write(path, b"content")
        assert await sandbox.files.read(path) == b"content"
        assert (await sandbox.files.stat(path)).size == 7
        assert {item.path for item in await sandbox.files.ls(home)} == {bystander, path}
        assert (await sandbox.run(self.probes.show_file(path))).stdout == "content"
        await sandbox.files.remove(path)
        assert [item.path for item in await sandbox.files.ls(home)] == [bystander]
        await sandbox.files.mkdir(path)
        assert await sandbox.files.ls(path) == []
        assert await sandbox.files.read(bystander) == b"untouched"

    @clause("files.odd-names")
    @pytest.mark.parametrize("odd", ["-delete", "-la", "--help", "*", "."])
    async def test_name_is_no_option_of_a_program(
        self, sandbox: AsyncSandbox, home: str, odd: str
    ) -> None:
        """If this fails, a path became an option of `ls`, `find` or `rm`."""
        keeper = f"{home}-keeper"
        await sandbox.files.write(keeper, b"kept")
        if odd != ".":
            with pytest.raises(PathNotFound):
                await sandbox.files.ls(odd)
            with pytest.raises(PathNotFound):
                await sandbox.files.remove(odd)
        assert keeper in {item.path.removeprefix("./") for item in await sandbox.files.ls()}
        assert await sandbox.files.read(keeper) == b"kept"

    @clause("files.same-as-commands")
    async def test_relative_path_means_one_file(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, files and commands start at different directories."""
        await sandbox.files.write(f"{home}/ours", b"of files")
        assert (await sandbox.run(self.probes.show_file(f"{home}/ours"))).stdout == "of files"
        await sandbox.run(self.probes.write_file(f"{home}/theirs", "of a command"))
        assert await sandbox.files.read(f"{home}/theirs") == b"of a command"
        where = (await sandbox.run(self.probes.show_directory())).stdout.strip()
        assert await sandbox.files.read(f"{where}/{home}/theirs") == b"of a command"
        assert await sandbox.files.read(f"{home}/../{home}/./theirs") == b"of a command"

    @clause("files.commands-may-change")
    async def test_command_may_change_a_written_file(
        self, sandbox: AsyncSandbox, home: str
    ) -> None:
        """If this fails, files belong to another user than the one that runs commands."""
        await sandbox.files.mkdir(f"{home}/folder/inner", parents=True)
        await sandbox.files.write(f"{home}/folder/file", b"one")
        result = await sandbox.run(self.probes.append_to_file(f"{home}/folder/file", ", two"))
        assert result.exit_code == 0, result
        assert await sandbox.files.read(f"{home}/folder/file") == b"one, two"
        made = await sandbox.run(self.probes.write_file(f"{home}/folder/inner/file", "x"))
        assert made.exit_code == 0, made

    # ----- refusals

    @clause("files.missing")
    async def test_missing_path_is_path_not_found(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, a missing file comes back empty, or as the provider's own error."""
        missing = f"{home}/missing"
        files = sandbox.files
        errors = {
            "read": await attempt(files.read(missing)),
            "stat": await attempt(files.stat(missing)),
            "ls": await attempt(files.ls(missing)),
            "remove": await attempt(files.remove(missing)),
            "write below it": await attempt(files.write(f"{missing}/file", b"x")),
            "mkdir below it": await attempt(files.mkdir(f"{missing}/folder")),
        }
        assert {what: type(error) for what, error in errors.items()} == dict.fromkeys(
            errors, PathNotFound
        )
        assert await files.ls(home) == []

    @clause("files.directory-refused")
    async def test_directory_is_not_a_file(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, a directory is replaced, emptied, or read as something else."""
        await sandbox.files.mkdir(f"{home}/folder")
        await sandbox.files.write(f"{home}/folder/file", b"kept")
        for path in (f"{home}/folder", f"{home}/folder/", ".", "/"):
            for error in (
                await attempt(sandbox.files.read(path)),
                await attempt(sandbox.files.write(path, b"x")),
            ):
                assert isinstance(error, FileSystemError), f"{path}: {error!r}"
                assert not isinstance(error, PathNotFound), f"{path}: {error!r}"
        assert await sandbox.files.read(f"{home}/folder/file") == b"kept"
        error = await attempt(sandbox.files.read(f"{home}/folder/file/below"))
        assert isinstance(error, FileSystemError), repr(error)

    @clause("files.special-refused")
    async def test_device_is_not_written(self, sandbox: AsyncSandbox) -> None:
        """If this fails, a write "succeeds" that nobody can read, or replaces the device."""
        with pytest.raises(FileSystemError):
            await sandbox.files.write(self.probes.device, b"x")

    @clause("files.endless-refused")
    async def test_endless_file_is_refused(self, sandbox: AsyncSandbox) -> None:
        """If this fails, a read has no end, and fills this host's memory."""
        error = await attempt(sandbox.files.read(self.probes.endless_file))
        assert isinstance(error, FileSystemError | OutputLimitExceeded), repr(error)

    @clause("files.read-bound")
    async def test_read_holds_no_more_than_the_bound(
        self, sandbox: AsyncSandbox, home: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If this fails, the bound is off by one, or is not there."""
        await sandbox.files.write(f"{home}/at", content(MIB))
        await sandbox.files.write(f"{home}/over", content(MIB + 1))
        monkeypatch.setenv("SBX_MAX_OUTPUT_MB", "1")
        assert len(await sandbox.files.read(f"{home}/at")) == MIB
        with pytest.raises(OutputLimitExceeded):
            await sandbox.files.read(f"{home}/over")

    @clause("files.bad-path")
    @pytest.mark.parametrize("path", BAD_PATHS, ids=repr)
    async def test_impossible_path_is_refused(self, sandbox: AsyncSandbox, path: Any) -> None:
        """If this fails, a wrong argument raises a builtin exception, or means something else."""
        files = sandbox.files
        for call in (files.read, files.ls, files.mkdir, files.remove, files.stat):
            error = await attempt(call(path))
            assert isinstance(error, ConfigurationError), f"{call.__name__}: {error!r}"
        error = await attempt(files.write(path, b"x"))
        assert isinstance(error, ConfigurationError), repr(error)
        error = await attempt(files.write("file", path))
        assert isinstance(path, str | bytes) or isinstance(error, ConfigurationError), repr(error)

    # ----- modes and links

    @clause("files.keeps-mode")
    async def test_overwriting_keeps_the_mode(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, a file is replaced by a new one with default permissions."""
        path = f"{home}/file"
        await sandbox.files.write(path, b"old")
        await sandbox.run(self.probes.change_mode("750", path))
        await sandbox.files.write(path, b"new")
        assert (await sandbox.run(self.probes.mode_of(path))).stdout.strip() == "750"
        assert await sandbox.files.read(path) == b"new"

    @clause("files.write-through-link")
    async def test_writing_to_a_link_changes_its_target(
        self, sandbox: AsyncSandbox, home: str
    ) -> None:
        """If this fails, the link is replaced by a file."""
        await sandbox.files.write(f"{home}/target", b"old")
        await sandbox.run(self.probes.link("target", f"{home}/link"))
        await sandbox.files.write(f"{home}/link", b"new")
        assert await sandbox.files.read(f"{home}/target") == b"new"
        assert (await sandbox.files.stat(f"{home}/link")).is_link is True

    @clause("files.links")
    async def test_links_are_followed_or_refused(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, a final link cannot be read, or one that leads nowhere hangs."""
        await sandbox.files.write(f"{home}/target", b"content")
        await sandbox.run(self.probes.link("target", f"{home}/good"))
        await sandbox.run(self.probes.link("nowhere", f"{home}/dangling"))
        await sandbox.run(self.probes.link("loop", f"{home}/loop"))
        assert await sandbox.files.read(f"{home}/good") == b"content"
        assert type(await attempt(sandbox.files.read(f"{home}/dangling"))) is PathNotFound
        loop = await attempt(sandbox.files.read(f"{home}/loop"))
        assert isinstance(loop, FileSystemError), repr(loop)

    # ----- directories

    @clause("files.ls")
    async def test_ls_describes_each_entry(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, a listing is parsed from the output of a program."""
        await sandbox.files.write(f"{home}/b", b"12345")
        await sandbox.files.mkdir(f"{home}/a")
        await sandbox.run(self.probes.link("a", f"{home}/c"))
        entries = await sandbox.files.ls(home)
        seen = [(item.path, item.is_dir, item.is_link) for item in entries]
        assert seen == [
            (f"{home}/a", True, False),
            (f"{home}/b", False, False),
            (f"{home}/c", False, True),
        ]
        assert entries[1].size == 5
        assert await sandbox.files.ls(f"{home}/a") == []

    @clause("files.ls-many")
    async def test_ls_lists_a_thousand_entries(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, a listing has pages, and only the first one is returned."""
        await sandbox.run(self.probes.make_many(f"{home}/many", 1000))
        entries = await sandbox.files.ls(f"{home}/many")
        assert {item.path for item in entries} == {f"{home}/many/{n}" for n in range(1, 1001)}
        assert len(entries) == 1000

    @clause("files.ls-file")
    async def test_ls_of_a_file_is_an_error(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, `ls()` of a file is an empty list, or the file itself."""
        await sandbox.files.write(f"{home}/file", b"")
        with pytest.raises(FileSystemError):
            await sandbox.files.ls(f"{home}/file")

    @clause("files.stat")
    async def test_stat_describes_a_path(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, `stat()` follows links, or makes facts up."""
        await sandbox.files.write(f"{home}/file", b"12345")
        await sandbox.run(self.probes.link("file", f"{home}/link"))
        file, folder, link = [
            await sandbox.files.stat(path) for path in (f"{home}/file", home, f"{home}/link")
        ]
        assert (file.path, file.size) == (f"{home}/file", 5)
        assert [item.is_dir for item in (file, folder, link)] == [False, True, False]
        assert [item.is_link for item in (file, folder, link)] == [False, False, True]

    @clause("files.mkdir")
    async def test_mkdir_makes_one_directory(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, `mkdir()` always makes parents, or accepts what exists."""
        await sandbox.files.mkdir(f"{home}/new")
        assert (await sandbox.files.stat(f"{home}/new")).is_dir
        await sandbox.files.write(f"{home}/file", b"kept")
        for path in (f"{home}/new", f"{home}/file"):
            error = await attempt(sandbox.files.mkdir(path))
            assert isinstance(error, FileSystemError), f"{path}: {error!r}"
        assert await sandbox.files.read(f"{home}/file") == b"kept"

    @clause("files.mkdir-parents")
    async def test_mkdir_makes_parents(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, `parents=True` is ignored."""
        await sandbox.files.mkdir(f"{home}/a/b/c", parents=True)
        await sandbox.files.mkdir(f"{home}/a/b/c", parents=True)
        assert (await sandbox.files.stat(f"{home}/a/b/c")).is_dir
        await sandbox.files.write(f"{home}/file", b"kept")
        error = await attempt(sandbox.files.mkdir(f"{home}/file", parents=True))
        assert isinstance(error, FileSystemError), repr(error)

    @clause("files.remove")
    async def test_remove_removes_all_below(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, a directory that is not empty stays."""
        await sandbox.files.write(f"{home}/file", b"")
        await sandbox.files.mkdir(f"{home}/folder/inner", parents=True)
        await sandbox.files.write(f"{home}/folder/inner/file", b"")
        await sandbox.files.remove(f"{home}/file")
        await sandbox.files.remove(f"{home}/folder")
        assert await self.names_in(sandbox, home) == []

    @clause("files.remove-link")
    async def test_remove_of_a_link_keeps_its_target(
        self, sandbox: AsyncSandbox, home: str
    ) -> None:
        """If this fails, a removal follows links, out of the directory that was meant."""
        await sandbox.files.mkdir(f"{home}/target")
        await sandbox.files.write(f"{home}/target/file", b"kept")
        await sandbox.files.mkdir(f"{home}/folder")
        await sandbox.run(self.probes.link("../target", f"{home}/folder/inner"))
        await sandbox.run(self.probes.link("target", f"{home}/link"))
        await sandbox.files.remove(f"{home}/link")
        await sandbox.files.remove(f"{home}/folder")
        assert await sandbox.files.read(f"{home}/target/file") == b"kept"
        assert await self.names_in(sandbox, home) == ["target"]

    @clause("files.deep")
    async def test_forty_levels_work(self, sandbox: AsyncSandbox, home: str) -> None:
        """If this fails, a path has a limit of length or depth."""
        path = "/".join([home, *(f"level{number}" for number in range(40))])
        await sandbox.files.mkdir(path, parents=True)
        await sandbox.files.write(f"{path}/file", b"deep")
        assert await sandbox.files.read(f"{path}/file") == b"deep"
        await sandbox.files.remove(f"{home}/level0")
        assert await self.names_in(sandbox, home) == []

    @clause("files.atomic-write")
    async def test_cancelled_write_leaves_the_old_content(
        self, sandbox: AsyncSandbox, home: str
    ) -> None:
        """If this fails, a file is written in place; write beside it and rename."""
        path, new = f"{home}/file", content(8 * MIB)
        await sandbox.files.write(path, b"old")
        whole = await interrupt(lambda: sandbox.files.write(f"{home}/other", new), at=0)
        assert whole.error is None, repr(whole.error)
        await sandbox.files.remove(f"{home}/other")
        for at in spread(whole.waits, self.cancel_points):
            cut = await interrupt(lambda: sandbox.files.write(path, new), at)
            assert cut.error is None, f"cancelled at wait {at}, it raised {cut.error!r}"
            data = await sandbox.files.read(path)
            assert data in (b"old", new), f"cancelled at wait {at}, it left {len(data)} bytes"
            assert await self.names_in(sandbox, home) == ["file"], f"cancelled at wait {at}"
            if data == new:
                await sandbox.files.write(path, b"old")
