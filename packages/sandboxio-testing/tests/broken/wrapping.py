"""Wrappers that pass everything on; a broken backend overrides what it breaks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from sandboxio.models import ExecResult, OutputChunk, Stdin
from sandboxio.protocols import AsyncFileSystem, AsyncSandbox, Process, ReapableBackend

Command = str | Sequence[str]
Env = Mapping[str, str] | None


class Passing:
    """Passes on whatever it does not define."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return repr(self.inner)


class PassingFiles(Passing):
    """Wraps an `AsyncFileSystem`."""

    inner: AsyncFileSystem

    def __init__(self, inner: AsyncFileSystem, sandbox: PassingSandbox) -> None:
        super().__init__(inner)
        self.sandbox = sandbox


class PassingProcess(Passing):
    """Wraps a `Process`."""

    inner: Process

    async def __aenter__(self) -> Any:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.inner.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[OutputChunk]:
        return self

    async def __anext__(self) -> OutputChunk:
        return await anext(aiter(self.inner))


class PassingSandbox(Passing):
    """Wraps an `AsyncSandbox`."""

    inner: AsyncSandbox
    files_type = PassingFiles
    process_type = PassingProcess

    def __init__(self, inner: AsyncSandbox, options: Mapping[str, Any]) -> None:
        super().__init__(inner)
        self.options = options

    @property
    def files(self) -> PassingFiles:
        return self.files_type(self.inner.files, self)

    async def run(
        self,
        cmd: Command,
        *,
        timeout: float | None = None,
        env: Env = None,
        cwd: str | None = None,
        stdin: bytes | str | None = None,
    ) -> ExecResult:
        return await self.inner.run(cmd, timeout=timeout, env=env, cwd=cwd, stdin=stdin)

    def stream(
        self,
        cmd: Command,
        *,
        timeout: float | None = None,
        env: Env = None,
        cwd: str | None = None,
        stdin: bytes | str | Stdin | None = None,
    ) -> PassingProcess:
        return self.process_type(
            self.inner.stream(cmd, timeout=timeout, env=env, cwd=cwd, stdin=stdin)
        )

    async def __aenter__(self) -> Any:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.inner.__aexit__(kind, error, trace)


class PassingBackend(Passing):
    """Wraps a backend."""

    inner: ReapableBackend
    sandbox_type = PassingSandbox

    async def create(self, **options: Any) -> Any:
        return self.sandbox_type(await self.inner.create(**options), options)

    async def connect(self, sandbox_id: str) -> Any:
        return self.sandbox_type(await self.inner.connect(sandbox_id), {})
