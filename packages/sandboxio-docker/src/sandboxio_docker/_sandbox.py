"""A live container with a guest in it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sandboxio.errors import ProviderError, SandboxError
from sandboxio.models import AppliedPolicy, Capability
from sandboxio.spi import ExitCause, GuestChannel, GuestSandbox

from ._cgroup import CapCounts, CgroupFiles, InnerCgroup, count_caps

if TYPE_CHECKING:
    from sandboxio.spi import Command, ProcessDriver, ProcessExit

    from ._client import Engine

__all__ = ["CAPABILITIES", "CappedProcess", "Container", "DockerSandbox", "inner_files"]

CAPABILITIES = (
    Capability.RUN_COMMAND
    | Capability.RUN_CODE
    | Capability.STREAMING
    | Capability.FILESYSTEM
    | Capability.UPLOAD_DOWNLOAD
    | Capability.NETWORK_POLICY
    | Capability.STDIN
)

KILLED = 128 + 9
"""Exit code of what the kernel killed for memory."""

Json = dict[str, Any]


@dataclass
class Container:
    """A container as its sandbox knows it."""

    engine: Engine
    id: str
    attributes: Json
    policy: AppliedPolicy
    files: CgroupFiles
    cgroup_version: str

    @property
    def native(self) -> object:
        """The SDK's object."""
        return self.engine.container(self.attributes)

    async def exists(self) -> bool:
        """Say whether it still exists and has not ended; a paused one has not."""
        found = await self.engine.inspect(self.id)
        return found is not None and bool(found["State"]["Running"])

    async def counts(self) -> CapCounts:
        """Read how often its caps were enforced."""
        return await count_caps(self.files, self.cgroup_version)


class DockerSandbox(GuestSandbox):
    """A `SandboxDriver` over a guest that is the first process of a container."""

    def __init__(self, channel: GuestChannel, container: Container) -> None:
        super().__init__(channel)
        self._container = container

    @property
    def id(self) -> str:
        """The container's id."""
        return self._container.id

    @property
    def native(self) -> object:
        """The SDK's ``Container``."""
        return self._container.native

    @property
    def capabilities(self) -> Capability:
        """What it can do."""
        return CAPABILITIES

    @property
    def policy(self) -> AppliedPolicy:
        """What is in force."""
        return self._container.policy

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command."""
        before = await self._container.counts()
        process = await super().start(command)
        return CappedProcess(process, self._container, before)

    async def alive(self) -> bool:
        """Ask the engine whether the container still runs."""
        return not self.channel.failed and await self._container.exists()

    async def terminate(self) -> None:
        """Remove the container; closing the channel has it end by itself if the engine is slow."""
        try:
            await self._container.engine.remove(self._container.id)
        except ProviderError:
            # It was refused: the sandbox is as it was, and can be asked to end again. If nobody does,
            # its connection, which is its lease, ends with this object.
            weakref.finalize(self, self.channel.close)
            raise
        except BaseException:
            self.channel.close()
            raise
        self.channel.close()

    async def detach(self) -> None:
        """Close the channel and leave the container running."""
        self.channel.close()


class CappedProcess:
    """A command whose end is compared with how often the kernel enforced a cap meanwhile."""

    def __init__(self, process: ProcessDriver, container: Container, before: CapCounts) -> None:
        self._process = process
        self._container = container
        self._before = before
        self.receive = process.receive
        self.send = process.send
        self.send_eof = process.send_eof
        self.signal = process.signal
        self.kill = process.kill
        self.aclose = process.aclose

    async def wait(self) -> ProcessExit:
        """Return how it ended, and blame a cap on the kernel's word only."""
        ended = await self._process.wait()
        if ended.cause is not ExitCause.EXITED or ended.exit_code == 0:
            return ended
        try:
            now = await self._container.counts()
        except SandboxError:
            return ended  # the sandbox ended meanwhile; the exit code is known all the same
        if ended.exit_code == KILLED and now.out_of_memory > self._before.out_of_memory:
            return replace(ended, cause=ExitCause.OUT_OF_MEMORY)
        if now.process_refused > self._before.process_refused:
            return replace(ended, cause=ExitCause.PROCESS_LIMIT)
        return ended


def inner_files(channel: GuestChannel) -> InnerCgroup:
    """Return the cgroup files as a guest reads them."""
    sandbox = GuestSandbox(channel)

    async def read_file(path: str) -> bytes | None:
        try:
            async with sandbox.read(path) as (_, chunks):
                return b"".join([chunk async for chunk in chunks])
        except SandboxError:
            return None

    return InnerCgroup(read_file)
