"""One live sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandboxio.models import Capability
from sandboxio.spi import ExitCause, GuestSandbox
from sandboxio_local._cgroup import oom_kills
from sandboxio_local._processes import alive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sandboxio.models import AppliedPolicy
    from sandboxio.spi import GuestChannel

__all__ = ["CAPABILITIES", "LocalNative", "LocalSandbox"]

CAPABILITIES = (
    Capability.RUN_COMMAND
    | Capability.RUN_CODE
    | Capability.STREAMING
    | Capability.STDIN
    | Capability.FILESYSTEM
    | Capability.UPLOAD_DOWNLOAD
    | Capability.NETWORK_POLICY
)


@dataclass(frozen=True)
class LocalNative:
    """What a sandbox of this backend is on the host.

    Attributes:
        init: Pid of its first process.
        init_started: When that started, in ticks since boot.
        directory: Its state directory.
        groups: Its control groups, as their ``cgroup.procs`` files.
        events: The file that counts kills for want of memory; empty without control groups.
    """

    init: int
    init_started: int
    directory: Path
    groups: tuple[str, ...]
    events: str


class LocalSandbox(GuestSandbox):
    """Drives one sandbox: through its guest while it lives, through the host to end it."""

    def __init__(
        self,
        channel: GuestChannel,
        *,
        native: LocalNative,
        policy: AppliedPolicy,
        end: Callable[[], Awaitable[None]],
    ) -> None:
        """Take over a sandbox.

        Args:
            channel: Its guest.
            native: What it is on the host.
            policy: What was found to be in force.
            end: Ends it and returns when nothing is left; may be called again.
        """
        super().__init__(channel)
        self._native = native
        self._policy = policy
        self._end = end
        self._kills_told = oom_kills(native.events) or 0 if native.events else 0

    @property
    def id(self) -> str:
        """Its id, the name of its state directory."""
        return self._native.directory.name

    @property
    def native(self) -> LocalNative:
        """What it is on the host."""
        return self._native

    @property
    def capabilities(self) -> Capability:
        """What it can do."""
        return CAPABILITIES

    @property
    def policy(self) -> AppliedPolicy:
        """What is in force."""
        return self._policy

    def note_start(self) -> object:
        """Remember how many processes the kernel had killed for want of memory."""
        return self._kills()

    def classify_exit(self, exit_code: int, note: object) -> ExitCause:
        """Blame the memory cap if the kernel counted a kill that no other command was told of."""
        if exit_code != 128 + 9:
            return ExitCause.EXITED
        kills = self._kills()
        if not isinstance(note, int) or kills <= max(note, self._kills_told):
            return ExitCause.EXITED
        self._kills_told = max(self._kills_told, note) + 1
        return ExitCause.OUT_OF_MEMORY

    def _kills(self) -> int:
        return (oom_kills(self._native.events) or 0) if self._native.events else 0

    async def alive(self) -> bool:
        """Say whether its first process lives."""
        return alive(self._native.init, self._native.init_started)

    async def terminate(self) -> None:
        """End it and return when nothing of it is left."""
        self.channel.close()
        await self._end()

    async def detach(self) -> None:
        """Let go of it and leave it running."""
        self.channel.close()
