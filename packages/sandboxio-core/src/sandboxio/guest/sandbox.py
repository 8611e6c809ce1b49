"""What a driver gets from a guest: commands and files, so that an adapter need not write them."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import anyio

from ..errors import OutOfMemory, ProcessLimitExceeded
from ..models import FileInfo
from ..spi import Command, ExitCause, FileMeta, ProcessDriver, run_to_the_end
from . import program as wire
from .channel import GuestChannel
from .files import Listing, Reading, Writing, file_error
from .process import OUTPUT_WINDOW, GuestProcess

__all__ = ["GuestSandbox"]

ABORT_GRACE = 5.0
"""Seconds for the guest to confirm that a cancelled start or transfer was undone."""


class GuestSandbox:
    """Commands and files of a sandbox with a guest; a driver of such a sandbox extends it."""

    def __init__(self, channel: GuestChannel) -> None:
        self.channel = channel

    @property
    def workdir(self) -> str:
        """Where relative paths start."""
        return self.channel.workdir

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secret values that the sandbox was created with."""
        return self.channel.secrets

    @property
    def remaining(self) -> float:
        """Seconds of lifetime left."""
        return self.channel.remaining

    def note_start(self) -> object:
        """Remember what `classify_exit` compares with; called before each command."""
        return None

    def classify_exit(self, exit_code: int, note: object) -> ExitCause:
        """Say whether a cap ended a command that sandboxio did not kill."""
        return ExitCause.EXITED

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command."""
        note = self.note_start()
        process = GuestProcess(
            self.channel,
            lambda code: self.classify_exit(code, note),
            command.stdin,
            command.keep_stdin_open,
        )
        request = {
            "argv": list(command.argv),
            "env": dict(command.env),
            "cwd": command.cwd or "",
            "stdin": int(bool(command.stdin) or command.keep_stdin_open),
            "timeout": int(command.timeout * 1000),
            "window": OUTPUT_WINDOW,
        }
        self.channel.begin(process, wire.START, request)
        process.feed()
        try:
            await self.channel.flush()
            await self.channel.wait_until(process, lambda: process.runs or process.ended)
        except BaseException:
            await run_to_the_end(lambda: self._undo(process), grace=2 * ABORT_GRACE)
            raise
        if process.failure is not None:
            number, _ = process.failure
            if number == errno.EAGAIN:
                raise ProcessLimitExceeded(
                    "The sandbox may not start another process.", limit="processes"
                )
            if number == errno.ENOMEM:
                raise OutOfMemory(
                    "The sandbox has no memory left to start a process.", limit="memory_mb"
                )
            raise file_error(number, command.cwd or ".")
        return process

    async def _undo(self, process: GuestProcess) -> None:
        """End a command whose start was interrupted, or else the sandbox."""
        with anyio.move_on_after(ABORT_GRACE):
            if await process.kill():
                return
        await self.terminate()

    async def terminate(self) -> None:
        """End the sandbox; a driver says how."""
        raise NotImplementedError

    @asynccontextmanager
    async def read(self, path: str) -> AsyncGenerator[tuple[FileMeta, AsyncIterator[bytes]], None]:
        """Open a regular file."""
        reading = Reading(self.channel, path)
        try:
            meta = await reading.open()
            async with aclosing(_content(reading)) as content:
                yield meta, content
        finally:
            await _abort(reading)

    async def write(self, path: str, chunks: AsyncIterator[bytes], meta: FileMeta) -> None:
        """Write a file atomically."""
        writing = Writing(self.channel, path)
        try:
            await writing.open(meta)
            async for chunk in chunks:
                await writing.send(chunk)
            await writing.finish()
        finally:
            await _abort(writing)

    async def stat(self, path: str) -> FileInfo:
        """Describe one path, without following a final link."""
        return (await self._ask(wire.STAT, path))[0]

    async def ls(self, path: str) -> list[FileInfo]:
        """List a directory."""
        return sorted(await self._ask(wire.LS, path), key=lambda info: info.path)

    async def mkdir(self, path: str, *, parents: bool) -> None:
        """Make a directory."""
        await self._ask(wire.MKDIR, path, parents=parents)

    async def remove(self, path: str) -> None:
        """Remove a path and all below it."""
        await self._ask(wire.REMOVE, path)

    async def alive(self) -> bool:
        """Say whether the guest's connection stands."""
        return not self.channel.failed

    async def _ask(self, kind: int, path: str, *, parents: bool = False) -> list[FileInfo]:
        listing = Listing(self.channel, path)
        try:
            return await listing.ask(kind, parents=parents)
        finally:
            await _abort(listing)


async def _content(reading: Reading) -> AsyncGenerator[bytes, None]:
    while data := await reading.receive():
        yield data


async def _abort(operation: Reading | Writing | Listing) -> None:
    if operation.ident and not operation.ended:
        await run_to_the_end(operation.abort, grace=ABORT_GRACE)
