"""A driver that does what a test tells it, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from sandboxio.errors import ConnectError
from sandboxio.models import (
    AppliedPolicy,
    Capability,
    FileInfo,
    Health,
    IsolationTier,
    ManagedSandbox,
    NetworkPolicy,
    OutputChunk,
    Resources,
)
from sandboxio.spi import Command, DriverBackend, FileMeta, ProcessExit, ProvisionRequest

Act = Callable[[], Awaitable[Any]]


class Scripted:
    """What a part of the driver does, by the name of the call: ``acts["kill"] = hang``."""

    def __init__(self) -> None:
        self.acts: dict[str, Act] = {}
        self.calls: list[str] = []

    async def act(self, name: str, otherwise: Any = None) -> Any:
        """Remember the call, and do what the test wants, or return `otherwise`."""
        self.calls.append(name)
        act = self.acts.get(name)
        return otherwise if act is None else await act()


class ScriptedProcess(Scripted):
    """A command that writes `chunks` and then ends, or does not with ``acts["receive"]``."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[OutputChunk] = []
        self.exit = ProcessExit(0)
        self.closed = 0

    async def receive(self) -> OutputChunk | None:
        """Return what was scripted."""
        if self.chunks:
            return self.chunks.pop(0)
        result: OutputChunk | None = await self.act("receive")
        return result

    async def wait(self) -> ProcessExit:
        """Return how it ended."""
        await self.act("wait")
        return self.exit

    async def send(self, data: bytes) -> None:
        """Take stdin."""
        await self.act("send")

    async def send_eof(self) -> None:
        """Take its end."""
        await self.act("send_eof")

    async def signal(self, signum: int) -> None:
        """Take a signal."""
        await self.act("signal")

    async def kill(self) -> bool:
        """Confirm, or do what was scripted."""
        self.acts.pop("receive", None)
        return bool(await self.act("kill", True))

    async def aclose(self) -> None:
        """Count."""
        self.closed += 1
        await self.act("aclose")


class ScriptedSandbox(Scripted):
    """A sandbox in name only."""

    native: object = None
    workdir = "/work"
    secrets: tuple[str, ...] = ()
    remaining = 100.0

    def __init__(self, driver: ScriptedDriver, name: str) -> None:
        super().__init__()
        self.driver = driver
        self.id = name
        self.process = ScriptedProcess()
        self.commands: list[Command] = []
        self.capabilities = driver.capabilities
        self.policy = AppliedPolicy(driver.isolation, NetworkPolicy(), "script", True, 100)

    async def start(self, command: Command) -> ScriptedProcess:
        """Start the one process that there is."""
        self.commands.append(command)
        await self.act("start")
        return self.process

    @asynccontextmanager
    async def read(self, path: str) -> AsyncIterator[tuple[FileMeta, AsyncIterator[bytes]]]:
        """Read a file that holds what was scripted."""

        async def chunks() -> AsyncIterator[bytes]:
            yield await self.act("chunk", b"content")

        yield await self.act("read", FileMeta(mode=0o644, mtime=1.0, size=7)), chunks()

    async def write(self, path: str, chunks: AsyncIterator[bytes], meta: FileMeta) -> None:
        """Swallow a file."""
        async for _ in chunks:
            await self.act("chunk")
        await self.act("write")

    async def stat(self, path: str) -> FileInfo:
        """Describe a path."""
        info: FileInfo = await self.act("stat", FileInfo(path, 1, is_dir=False))
        return info

    async def ls(self, path: str) -> list[FileInfo]:
        """List nothing."""
        found: list[FileInfo] = await self.act("ls", [])
        return found

    async def mkdir(self, path: str, *, parents: bool) -> None:
        """Make nothing."""
        await self.act("mkdir")

    async def remove(self, path: str) -> None:
        """Remove nothing."""
        await self.act("remove")

    async def alive(self) -> bool:
        """Say whether it is there."""
        return bool(await self.act("alive", self.id in self.driver.there))

    async def terminate(self) -> None:
        """End it."""
        await self.act("terminate")
        self.driver.there.discard(self.id)

    async def detach(self) -> None:
        """Let go of it."""
        await self.act("detach")


class ScriptedDriver(Scripted):
    """A provider in name only; `there` are the sandboxes that it holds."""

    name = "scripted"
    default_resources = Resources(cpu=1, memory_mb=64, processes=64)
    resources_hint = "There is no disk."

    def __init__(self) -> None:
        super().__init__()
        self.isolation = IsolationTier.GVISOR
        self.capabilities = (
            Capability.RUN_COMMAND
            | Capability.RUN_CODE
            | Capability.STREAMING
            | Capability.FILESYSTEM
            | Capability.UPLOAD_DOWNLOAD
            | Capability.STDIN
            | Capability.NETWORK_POLICY
        )
        self.requests: list[ProvisionRequest] = []
        self.there: set[str] = set()
        self.sandboxes: list[ScriptedSandbox] = []
        self.steps = 0

    async def provision(self, request: ProvisionRequest) -> ScriptedSandbox:
        """Make one in several steps, each of which may be cancelled."""
        self.requests.append(request)
        await self.act("before")
        self.there.add(request.name)
        await self.act("created")
        sandbox = ScriptedSandbox(self, request.name)
        self.sandboxes.append(sandbox)
        await self.act("ready")
        return sandbox

    async def attach(self, sandbox_id: str) -> ScriptedSandbox:
        """Attach to one."""
        await self.act("attach")
        if sandbox_id not in self.there:
            raise ConnectError(f"There is no {sandbox_id!r}.")
        sandbox = ScriptedSandbox(self, sandbox_id)
        self.sandboxes.append(sandbox)
        return sandbox

    async def list_managed(self, labels: Mapping[str, str]) -> list[ManagedSandbox]:
        """List what is there."""
        await self.act("list")
        return [ManagedSandbox(name, self.name, "running") for name in sorted(self.there)]

    async def destroy(self, sandbox_id: str) -> bool:
        """Destroy one."""
        await self.act("destroy")
        found = sandbox_id in self.there
        self.there.discard(sandbox_id)
        return found

    async def health(self) -> Health:
        """Say that all is well."""
        health: Health = await self.act("health", Health(ok=True, detail="scripted"))
        return health


@pytest.fixture
def driver() -> ScriptedDriver:
    """A driver that a test scripts."""
    return ScriptedDriver()


@pytest.fixture
def backend(driver: ScriptedDriver) -> DriverBackend:
    """The engine over it."""
    return DriverBackend(driver)


@pytest.fixture
def hang() -> Act:
    """An act that never ends by itself."""
    return anyio.sleep_forever


@pytest.fixture
def fail() -> Callable[[BaseException], Act]:
    """Makes an act that raises."""

    def make(error: BaseException) -> Act:
        async def act() -> None:
            raise error

        return act

    return make


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A teardown that gives up soon, for tests in which it has to."""
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "0.05")
