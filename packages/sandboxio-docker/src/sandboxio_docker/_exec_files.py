"""Files of a container without a guest, by the programs of its image.

The engine's archive endpoints see the container's disk from outside: neither ``/proc`` and ``/dev/shm``
nor the rights of the user who runs commands. These see what commands see.
"""

from __future__ import annotations

import errno
import secrets as randomness
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from sandboxio.errors import FileSystemError, ProviderError, SandboxCorrupted
from sandboxio.guest.files import MAX_ENTRIES, file_error
from sandboxio.models import FileInfo
from sandboxio.spi import Command, FileMeta, ProcessDriver, run_to_the_end

from ._exec_host import ExecHost

__all__ = ["ExecFiles"]

SMALL_BOUND = 60.0
"""Seconds that a script of these may run that moves no content."""

TRANSFER_BOUND = 24 * 3600.0
"""Seconds that one may run that does; the engine's deadline for the call is shorter."""

ABORT_GRACE = 20.0
"""Seconds to end a transfer that was cut short: several execs, each of which may take seconds while the
engine is busy. What is not done by then is left in the sandbox."""

MAX_HEAD = 4096
"""Bytes of the line that says what a file is."""

MAX_LISTING = 64 * 1024 * 1024
"""Bytes of a listing."""

BASE = 100
"""Exit codes of these scripts are this and an errno."""

TOLD = frozenset({101, 102, 113, 116, 117, 120, 121, 128, 195})
"""All of these codes that there are."""

# What a shell can tell of a failure: the tools themselves only say that there was one.
ABSENT = '{ [ -e "$p" ] || [ -L "$p" ]; } || exit 102\n'

STAT = f'p=$1\n{ABSENT}"$2" -c "%f %s %Y" -- "$p"'

READ = """
p=$1
[ -e "$p" ] || exit 102
[ -d "$p" ] && exit 121
[ -f "$p" ] || exit 195
[ -r "$p" ] || exit 113
"$2" -L -c "%f %s %Y" -- "$p"
exec "$3" -- "$p"
"""

# To a hidden neighbour first; PUT moves it into its place.
WRITE = """
p=$1
case $p in */) [ -e "$p" ] || exit 121 ;; esac
target=$("$2" -f -- "$p") || exit 102
[ -d "$target" ] && exit 121
if [ -e "$target" ]; then
  [ -f "$target" ] || exit 195
  [ -w "$target" ] || exit 113
  mode=$("$5" -c %a -- "$target")
else
  mode=
fi
folder=${target%/*}/
[ -d "$folder" ] || exit 102
[ -w "$folder" ] || exit 113
new=$folder.sandboxio-$3
(umask 077; "$4" > "$new") || exit 128
printf '%s\\n%s' "$mode" "$target"
"""

PUT = """
p=$1 target=$2 mode=$3 mtime=$4
[ -n "$mode" ] && { "$5" "$mode" "$p" || exit 101; }
[ -n "$mtime" ] && { "$6" -d "@$mtime" "$p" || exit 101; }
"$7" -f -- "$p" "$target" || exit 101
"""

LS = f"""
p=$1
{ABSENT}[ -d "$p" ] || exit 120
[ -r "$p" ] || exit 113
exec "$2" "$p/" -mindepth 1 -maxdepth 1 -exec "$3" -c "$4 %f %s %Y %n" -- {{}} +
"""

MKDIR = """
p=$1
if [ -n "$3" ]; then
  [ -d "$p" ] && exit 0
  "$2" -p -- "$p" || { [ -e "$p" ] && exit 117; exit 113; }
else
  { [ -e "$p" ] || [ -L "$p" ]; } && exit 117
  parent=${p%/*}
  [ -d "${parent:-/}" ] || exit 102
  "$2" -- "$p" || exit 113
fi
"""

REMOVE = f"""
p=$1
{ABSENT}if [ ! -L "$p" ]; then
  real=$("$2" -f -- "$p")
  [ "$real" = "$3" ] || [ "$real" = / ] && exit 116
fi
"$4" -rf -- "$p"
[ -e "$p" ] || [ -L "$p" ] || exit 0
exit 113
"""


class ExecFiles:
    """File operations, each a script or two."""

    def __init__(self, host: ExecHost) -> None:
        self._host = host

    async def _start(self, script: str, *arguments: str, stdin: bool = False) -> ProcessDriver:
        command = Command(
            argv=("/bin/sh", "-c", script, "files", *arguments),
            env={},
            cwd="/",
            stdin=b"",
            keep_stdin_open=stdin,
            timeout=TRANSFER_BOUND if stdin else SMALL_BOUND,
        )
        try:
            return await self._host.start(command)
        except ProviderError:
            await self._host.raise_if_it_ends()
            raise

    async def _run(self, path: str, script: str, *arguments: str) -> bytes:
        """Run a script to its end and return what it printed."""
        process = await self._start(script, *arguments)
        try:
            output = bytearray()
            while (chunk := await process.receive()) is not None:
                if chunk.stream == "stdout":
                    output += chunk.data
                if len(output) > MAX_LISTING:
                    raise FileSystemError(f"{path!r} has too many entries.", path=path)
            await self._check(process, path)
        except BaseException:
            await run_to_the_end(process.kill, grace=ABORT_GRACE)
            raise
        finally:
            await process.aclose()
        return bytes(output)

    async def _check(self, process: ProcessDriver, path: str) -> None:
        code = (await process.wait()).exit_code
        if code:
            # What a tool itself ends with says nothing, nor does the signal that killed it.
            raise file_error(code - BASE if code in TOLD else errno.EIO, path)

    @asynccontextmanager
    async def read(self, path: str) -> AsyncGenerator[tuple[FileMeta, AsyncIterator[bytes]], None]:
        """Open a regular file."""
        host = self._host
        process = await self._start(READ, host.path(path), host.tool("stat"), host.tool("cat"))
        try:
            head = bytearray()
            while b"\n" not in head and len(head) < MAX_HEAD:
                chunk = await process.receive()
                if chunk is None:
                    await self._check(process, path)
                    raise SandboxCorrupted("The image's stat says nothing.")
                if chunk.stream == "stdout":
                    head += chunk.data
            line, _, rest = bytes(head).partition(b"\n")
            mode, size, mtime = facts(line)
            meta = FileMeta(mode=stat.S_IMODE(mode), mtime=mtime, size=size)
            # A file that grows while it is read is read to its present end; /proc's have no size.
            yield meta, self._content(process, path, rest, size or None)
        finally:
            await run_to_the_end(process.kill, grace=ABORT_GRACE)
            await process.aclose()

    async def _content(
        self, process: ProcessDriver, path: str, first: bytes, left: int | None
    ) -> AsyncGenerator[bytes, None]:
        data = first
        while True:
            if left is not None:
                data = data[:left]
                left -= len(data)
            if data:
                yield data
            if left == 0:
                return
            chunk = await process.receive()
            if chunk is None:
                await self._check(process, path)
                return
            data = chunk.data if chunk.stream == "stdout" else b""

    async def write(self, path: str, chunks: AsyncIterator[bytes], meta: FileMeta) -> None:
        """Write a file atomically."""
        host = self._host
        token = randomness.token_hex(8)
        tools = [host.tool(name) for name in ("cat", "stat")]
        process: ProcessDriver | None = None
        try:
            process = await self._start(
                WRITE, host.path(path), host.tool("readlink"), token, *tools, stdin=True
            )
            async for chunk in chunks:
                await process.send(chunk)
            await process.send_eof()
            said = bytearray()
            while (output := await process.receive()) is not None:
                if output.stream == "stdout":
                    said += output.data
            await self._check(process, path)
            before, _, target = said.decode("utf-8", "surrogateescape").partition("\n")
            mode = before if meta.mode is None else f"{meta.mode & 0o7777:o}"
            await self._put(path, target, token, mode or "644", meta.mtime)
        except BaseException:
            writer = process
            await run_to_the_end(lambda: self._discard(path, token, writer), grace=ABORT_GRACE)
            raise
        finally:
            if process is not None:
                await process.aclose()

    async def _put(
        self, path: str, target: str, token: str, mode: str, mtime: float | None
    ) -> None:
        host = self._host
        await self._run(
            path,
            PUT,
            f"{target.rpartition('/')[0]}/.sandboxio-{token}",
            target,
            mode,
            "" if mtime is None else str(int(mtime)),
            *(host.tool(name) for name in ("chmod", "touch", "mv")),
        )

    async def _discard(self, path: str, token: str, writer: ProcessDriver | None) -> None:
        """Undo a write that was cut short; one step, for a cancelled caller makes no second one."""
        host = self._host
        if writer is not None:
            await writer.kill()
        script = 'target=$("$2" -f -- "$1") && "$3" -f -- "${target%/*}/.sandboxio-$4"'
        tools = (host.tool("readlink"), host.tool("rm"))
        await self._run(path, script, host.path(path), *tools, token)

    async def stat(self, path: str) -> FileInfo:
        """Describe one path, without following a final link."""
        host = self._host
        return info(path, facts(await self._run(path, STAT, host.path(path), host.tool("stat"))))

    async def ls(self, path: str) -> list[FileInfo]:
        """List a directory."""
        host = self._host
        mark = randomness.token_hex(8)
        folder = host.path(path).rstrip("/")
        output = await self._run(path, LS, folder, host.tool("find"), host.tool("stat"), mark)
        # Names may hold newlines; the mark in front of each entry cannot be in one.
        entries = (b"\n" + output).split(f"\n{mark} ".encode())[1:]
        if len(entries) > MAX_ENTRIES:
            raise FileSystemError(f"{path!r} has more than {MAX_ENTRIES} entries.", path=path)
        found: list[FileInfo] = []
        for entry in entries:
            mode, size, mtime, name = entry.removesuffix(b"\n").split(b" ", 3)
            text = name.rpartition(b"/")[2].decode("utf-8", "surrogateescape")
            if text in ("", ".", ".."):
                raise SandboxCorrupted("A directory of the sandbox has an entry that is no name.")
            where = text if path in ("", ".") else f"{path.rstrip('/')}/{text}"
            found.append(info(where, facts(b" ".join((mode, size, mtime)))))
        return sorted(found, key=lambda item: item.path)

    async def mkdir(self, path: str, *, parents: bool) -> None:
        """Make a directory."""
        host = self._host
        folder = host.path(path).rstrip("/") or "/"
        await self._run(path, MKDIR, folder, host.tool("mkdir"), "1" if parents else "")

    async def remove(self, path: str) -> None:
        """Remove a path and all below it."""
        host = self._host
        if path.rstrip("/").rpartition("/")[2] in ("", ".", ".."):
            raise file_error(errno.EBUSY, path)
        await self._run(
            path,
            REMOVE,
            host.path(path).rstrip("/"),
            host.tool("readlink"),
            host.workdir,
            host.tool("rm"),
        )


def facts(line: bytes) -> tuple[int, int, float]:
    """Parse mode, size and modification time as the image's stat prints them."""
    try:
        mode, size, mtime = line.split()
        return int(mode, 16), int(size), float(int(mtime))
    except ValueError as error:
        raise SandboxCorrupted("The image's stat prints something else than it should.") from error


def info(path: str, known: tuple[int, int, float]) -> FileInfo:
    """Describe a path."""
    mode, size, mtime = known
    return FileInfo(
        path=path,
        size=size,
        is_dir=stat.S_ISDIR(mode),
        is_link=stat.S_ISLNK(mode),
        mode=stat.S_IMODE(mode),
        mtime=mtime,
    )
