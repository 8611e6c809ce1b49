"""The public file system of a sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from .._observe.record import Record
from ..errors import ExecutionTimeout, OutputLimitExceeded
from ..models import Capability, FileInfo
from ..spi import FileMeta
from .hostfiles import check_local, incoming, outgoing
from .live import LiveSandbox
from .settings import max_output_bytes
from .validation import check_data, check_path

__all__ = ["EngineFiles"]


_OPERATIONS = {
    "file_read": ("files.read()", Capability.FILESYSTEM),
    "file_write": ("files.write()", Capability.FILESYSTEM),
    "file_upload": ("files.upload()", Capability.UPLOAD_DOWNLOAD),
    "file_download": ("files.download()", Capability.UPLOAD_DOWNLOAD),
    "file_list": ("files.ls()", Capability.FILESYSTEM),
    "file_mkdir": ("files.mkdir()", Capability.FILESYSTEM),
    "file_remove": ("files.remove()", Capability.FILESYSTEM),
    "file_stat": ("files.stat()", Capability.FILESYSTEM),
}
"""Event of the record → how messages call it, and what it needs."""


class EngineFiles:
    """Files of one sandbox."""

    def __init__(self, live: LiveSandbox) -> None:
        self._live = live

    def __repr__(self) -> str:
        return f"<Files of {self._live.backend}:{self._live.driver.id[:24]}>"

    async def read(self, path: str) -> bytes:
        """Return a file's content."""
        path = check_path(path)
        bound = max_output_bytes()
        data = bytearray()
        async with (
            self._operation("file_read", path) as record,
            self._live.driver.read(path) as (meta, chunks),
        ):
            if meta.size is not None and meta.size > bound:
                raise self._too_large(path, bound)
            async for chunk in chunks:
                data += chunk
                record.bytes_out = len(data)
                if len(data) > bound:
                    raise self._too_large(path, bound)
        return bytes(data)

    async def write(self, path: str, data: bytes | str) -> None:
        """Write a file; all of it appears, or nothing."""
        path = check_path(path)
        content = check_data(data, "data")
        async with self._operation("file_write", path) as record:
            record.bytes_in = len(content)
            async with aclosing(_once(content)) as chunks:
                await self._live.driver.write(path, chunks, FileMeta(size=len(content)))

    async def upload(self, local: str | Path, remote: str) -> None:
        """Copy a file of the host into the sandbox."""
        remote = check_path(remote, "remote")
        source = check_local(local)
        async with (
            self._operation("file_upload", remote) as record,
            outgoing(source) as (meta, chunks),
            aclosing(_counted(chunks, record)) as counted,
        ):
            await self._live.driver.write(remote, counted, meta)

    async def download(self, remote: str, local: str | Path) -> None:
        """Copy a file of the sandbox to the host."""
        remote = check_path(remote, "remote")
        target = check_local(local)
        async with (
            self._operation("file_download", remote) as record,
            self._live.driver.read(remote) as (meta, chunks),
            incoming(target) as file,
        ):
            async for chunk in chunks:
                record.bytes_out += len(chunk)
                await file.write(chunk)
            await file.flush()
            file.set_meta(meta)

    async def ls(self, path: str = ".") -> list[FileInfo]:
        """List a directory, sorted by path."""
        path = check_path(path)
        async with self._operation("file_list", path):
            return await self._live.driver.ls(path)
        raise AssertionError("unreachable")

    async def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Make a directory."""
        path = check_path(path)
        async with self._operation("file_mkdir", path):
            await self._live.driver.mkdir(path, parents=bool(parents))

    async def remove(self, path: str) -> None:
        """Remove a file, a link, or a directory with all it holds."""
        path = check_path(path)
        async with self._operation("file_remove", path):
            await self._live.driver.remove(path)

    async def stat(self, path: str) -> FileInfo:
        """Describe a path, without following a final link."""
        path = check_path(path)
        async with self._operation("file_stat", path):
            return await self._live.driver.stat(path)
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def _operation(self, event: str, path: str) -> AsyncGenerator[Record, None]:
        what, capability = _OPERATIONS[event]
        bound = self._live.inherited_timeout
        async with self._live.operation(event, path=path) as record:
            self._live.ensure_running()
            self._live.require(capability, what)
            with self._live.clock.move_on_after(bound) as scope:
                async with self._live.call(what):
                    yield record
            if scope.cancelled_caught:
                raise ExecutionTimeout(
                    f"{what} did not finish within the {bound:.0f} s that the sandbox had left.",
                    hint="Raise create(timeout=...), or move less data.",
                )

    def _too_large(self, path: str, bound: int) -> OutputLimitExceeded:
        return OutputLimitExceeded(
            f"{self._live.redactor.text(path)!r} has more than the {bound} bytes that a call may hold.",
            limit="SBX_MAX_OUTPUT_MB",
            value=bound / (1024 * 1024),
            hint="Use files.download(), or raise SBX_MAX_OUTPUT_MB.",
        )


async def _counted(chunks: AsyncIterator[bytes], record: Record) -> AsyncGenerator[bytes, None]:
    async for chunk in chunks:
        record.bytes_in += len(chunk)
        yield chunk


async def _once(data: bytes) -> AsyncGenerator[bytes, None]:
    if data:
        yield data
