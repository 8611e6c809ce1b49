"""What an adapter implements: a thin driver of one provider.

The engine asks for nothing else. Argument checks, refusals, deadlines, cancellation, bounded
output, records, redaction and teardown are the engine's; a driver only says what is possible
on one live sandbox. Rules for every method:

- It may be cancelled at any await, and cleans up what it alone knows of.
- It raises errors of `sandboxio.errors` for what it can name (with ``from`` the provider's own),
  and lets anything else pass: the engine wraps it.
- It never blocks the event loop, and works on asyncio and on trio.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Protocol

from ..models import (
    AppliedPolicy,
    Capability,
    FileInfo,
    Health,
    IsolationTier,
    ManagedSandbox,
    NetworkPolicy,
    OutputChunk,
    Resources,
    RichOutput,
)

__all__ = [
    "BackendDriver",
    "CodeResult",
    "Command",
    "ExitCause",
    "FileMeta",
    "ProcessDriver",
    "ProcessExit",
    "ProvisionRequest",
    "SandboxDriver",
    "SupportsCode",
]


@dataclass(frozen=True)
class ProvisionRequest:
    """A checked request for one sandbox.

    Attributes:
        name: Chosen before anything is created (``sbx-`` and 16 hex digits). A driver gives the
            provider this name or label first of all, so that `BackendDriver.destroy` with it
            finds what a cancelled create may have left.
        template: Image or template, or ``None`` for the backend's default.
        resources: With every cap resolved that `BackendDriver.default_resources` gives.
        network: The policy to enforce, or to refuse.
        env: Environment of every command (``secrets`` included). Where the driver can hand it
            over inside the sandbox (through the guest), it does; it is never put where the
            provider shows it.
        secret_names: Which keys of ``env`` are secrets.
        timeout: Lifetime in seconds, to be enforced at the provider's side.
        metadata: Labels to store with the sandbox.
    """

    name: str
    template: str | None
    resources: Resources
    network: NetworkPolicy
    env: Mapping[str, str] = field(repr=False)
    secret_names: frozenset[str]
    timeout: float
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class Command:
    """A checked command.

    Attributes:
        argv: At least one element; run without a shell.
        env: The whole environment that the engine knows for it: the sandbox's and the call's.
        cwd: Absolute, or relative to the working directory of the sandbox; ``None`` for that.
        stdin: What the command reads first.
        keep_stdin_open: Whether `ProcessDriver.send` may follow; if not, EOF follows ``stdin``.
        timeout: Seconds until the engine kills it. A driver that can also has the far side
            kill it then, for a consumer that does not come back.
        call: The public call that it is made for: a label, without effect on how it runs.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: str | None
    stdin: bytes = field(repr=False)
    keep_stdin_open: bool
    timeout: float
    call: Literal["run", "run_code", "stream"] = "run"


class ExitCause(Enum):
    """Why a command ended."""

    EXITED = "exited"
    """By itself, or by a signal that was not sandboxio's."""
    KILLED = "killed"
    """By `ProcessDriver.kill`."""
    TIMED_OUT = "timed out"
    """By the far side, at the deadline of the command."""
    OUT_OF_MEMORY = "out of memory"
    PROCESS_LIMIT = "process limit"
    DISK_FULL = "disk full"


@dataclass(frozen=True)
class ProcessExit:
    """How a command ended.

    Attributes:
        exit_code: 0 to 255; 128 + *n* after signal *n*.
        cause: A cap is blamed only on the kernel's or the provider's word, never guessed.
    """

    exit_code: int
    cause: ExitCause = ExitCause.EXITED


@dataclass(frozen=True)
class FileMeta:
    """What travels with a file's content.

    Attributes:
        mode: Permission bits to set on a new file; ``None`` for the default.
        mtime: Modification time to set, in seconds since the epoch; ``None`` for now.
        size: How many bytes will come, if known.
    """

    mode: int | None = None
    mtime: float | None = None
    size: int | None = None


class ProcessDriver(Protocol):
    """One running command."""

    async def receive(self) -> OutputChunk | None:
        """Return the next output, or ``None`` when the command ended and all it wrote was read.

        A background child that still holds the pipe does not delay the end. Cancelling loses
        no output. Called by one task at a time.
        """
        ...

    async def wait(self) -> ProcessExit:
        """Return how it ended; called after `receive` returned ``None`` or after `kill`."""
        ...

    async def send(self, data: bytes) -> None:
        """Write to stdin as fast as it is read; a closed stdin swallows the rest silently.

        Only for a command with ``keep_stdin_open``. Cancelling may leave a part of it written.
        """
        ...

    async def send_eof(self) -> None:
        """Close stdin."""
        ...

    async def signal(self, signum: int) -> None:
        """Signal the command's process group."""
        ...

    async def kill(self) -> bool:
        """Kill the whole tree, ``setsid`` and double forks included, and nothing else.

        Returns ``True`` once the tree is known to be empty. May be called again, and after the
        command has ended, when it does nothing.
        """
        ...

    async def aclose(self) -> None:
        """Release what the host holds for it. Called exactly once, never before the end."""
        ...


class SandboxDriver(Protocol):
    """One live sandbox."""

    @property
    def id(self) -> str:
        """The provider's id of it, accepted by `BackendDriver.attach` and ``destroy``."""
        ...

    @property
    def native(self) -> object:
        """The provider's object."""
        ...

    @property
    def capabilities(self) -> Capability:
        """What this sandbox can do."""
        ...

    @property
    def policy(self) -> AppliedPolicy:
        """What is in force, read back after the start."""
        ...

    @property
    def workdir(self) -> str:
        """Absolute path that relative paths start at."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secret values that the sandbox was created with, as far as known after `attach`."""
        ...

    @property
    def remaining(self) -> float:
        """Seconds of lifetime left, as far as known."""
        ...

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command.

        When it is cancelled, nothing of the command is left; a driver that cannot make sure of
        that ends the sandbox.

        Raises:
            PathNotFound: ``cwd`` does not exist.
            ProcessLimitExceeded: No process may be added.
        """
        ...

    def read(self, path: str) -> AbstractAsyncContextManager[tuple[FileMeta, AsyncIterator[bytes]]]:
        """Open a regular file; yields what is known of it and its content in pieces."""
        ...

    async def write(self, path: str, chunks: AsyncIterator[bytes], meta: FileMeta) -> None:
        """Write a file atomically; a cancelled write leaves what was there before."""
        ...

    async def stat(self, path: str) -> FileInfo: ...
    async def ls(self, path: str) -> list[FileInfo]: ...
    async def mkdir(self, path: str, *, parents: bool) -> None: ...
    async def remove(self, path: str) -> None: ...

    async def alive(self) -> bool:
        """Say whether the sandbox still exists; asked after a failure, to tell gone from slow."""
        ...

    async def terminate(self) -> None:
        """End the sandbox and wait until it is gone. Succeeds if it is gone already."""
        ...

    async def detach(self) -> None:
        """Release what the host holds for an attached sandbox, and leave it running."""
        ...


class BackendDriver(Protocol):
    """How sandboxes come and go."""

    @property
    def name(self) -> str:
        """Backend name, the scheme of its DSN."""
        ...

    @property
    def isolation(self) -> IsolationTier:
        """Tier of the sandboxes that `provision` would make."""
        ...

    @property
    def capabilities(self) -> Capability:
        """Capabilities of the sandboxes that `provision` would make."""
        ...

    @property
    def default_resources(self) -> Resources:
        """Caps applied when the caller names none. A ``None`` here cannot be enforced.

        A caller's value for a cap that is ``None`` here is refused by the engine.
        """
        ...

    @property
    def resources_hint(self) -> str:
        """What to tell a caller who set a cap that is ``None`` in `default_resources`."""
        ...

    async def provision(self, request: ProvisionRequest) -> SandboxDriver:
        """Create a sandbox with all policy in force, or raise and leave nothing."""
        ...

    async def attach(self, sandbox_id: str) -> SandboxDriver:
        """Attach to a live sandbox that sandboxio made.

        Raises:
            ConnectError: There is none with that id.
        """
        ...

    async def list_managed(self, labels: Mapping[str, str]) -> list[ManagedSandbox]:
        """List what sandboxio made and still exists, stopped ones included."""
        ...

    async def destroy(self, sandbox_id: str) -> bool:
        """Destroy by id or by the name of `ProvisionRequest`; ``False`` if there is none of ours."""
        ...

    async def health(self) -> Health:
        """Say whether `provision` could work now. Free, quick, without secrets."""
        ...


@dataclass(frozen=True)
class CodeResult:
    """What an interpreter made of a piece of code."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    results: tuple[RichOutput, ...] | None = None


class SupportsCode(Protocol):
    """A driver with an interpreter of its own (``Capability.STATEFUL_CODE``).

    Without it, the engine runs code as a one-shot command.
    """

    async def run_code(
        self,
        code: str,
        *,
        language: str,
        context_id: str | None,
        env: Mapping[str, str],
        timeout: float,
    ) -> CodeResult:
        """Run code; on cancellation, stop it, and leave other contexts alone."""
        ...
