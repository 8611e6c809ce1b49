"""The ports: what a backend, a sandbox, a process and a file system look like to a caller.

They are structural. Matching the types is necessary and not sufficient: the contract suite in
``sandboxio_testing`` is what tells whether an implementation keeps the promises.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from .models import (
    AppliedPolicy,
    Capability,
    ExecResult,
    FileInfo,
    Health,
    IsolationTier,
    ManagedSandbox,
    NetworkPolicy,
    OutputChunk,
    Resources,
    Stdin,
)

__all__ = ["AsyncFileSystem", "AsyncSandbox", "Backend", "Process", "ReapableBackend"]

DEFAULT_TIMEOUT = 300.0
"""Seconds that a sandbox lives, and that a call may take, when nothing else is said."""

DEFAULT_NETWORK = NetworkPolicy()
"""Everything is denied when nothing else is said. It is one object, so that a routing file's own
policy may take its place, and never that of a caller who said deny."""


class AsyncFileSystem(Protocol):
    """Files of one sandbox. Every path is a path in the sandbox, except where named ``local``.

    A relative path means the same file here and to a command: both start at the working
    directory of the sandbox. File names are data; no shell ever sees them. Every operation
    obeys the sandbox's deadline.

    Example:
        >>> async def copy(sandbox):
        ...     await sandbox.files.write("a.txt", "hello")
        ...     return await sandbox.files.read("a.txt")
    """

    async def read(self, path: str) -> bytes:
        """Return a file's content.

        Raises:
            PathNotFound: It does not exist.
            FileSystemError: It is a directory, a device or a pipe, or may not be read.
            OutputLimitExceeded: It is larger than ``SBX_MAX_OUTPUT_MB``; use `download`.
        """
        ...

    async def write(self, path: str, data: bytes | str) -> None:
        """Write a file; all of it appears, or nothing does. Text is encoded as UTF-8.

        An existing file keeps its mode, and a symbolic link keeps pointing where it points.

        Raises:
            PathNotFound: The directory does not exist.
            FileSystemError: The path is a directory or no regular file, or may not be written.
            DiskFull: It does not fit.
        """
        ...

    async def upload(self, local: str | Path, remote: str) -> None:
        """Copy a file of the host into the sandbox, in constant memory, mode and mtime included.

        Raises:
            FileSystemError: ``local`` is not a regular file (links are not followed).
            PathNotFound: ``local``, or the directory of ``remote``, does not exist.
            DiskFull: It does not fit.
        """
        ...

    async def download(self, remote: str, local: str | Path) -> None:
        """Copy a file of the sandbox to the host, in constant memory.

        ``local`` is replaced in one step when all has arrived; a link there is replaced, never
        followed.
        """
        ...

    async def ls(self, path: str = ".") -> list[FileInfo]:
        """List a directory, sorted by path.

        Raises:
            PathNotFound: It does not exist.
            FileSystemError: It is not a directory.
        """
        ...

    async def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Make a directory; with ``parents``, missing parents too, and an existing one is fine."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file, a link (not what it points to), or a directory with all it holds."""
        ...

    async def stat(self, path: str) -> FileInfo:
        """Return what is known of a path, without following a final link."""
        ...


class Process(Protocol):
    """A running command, from `AsyncSandbox.stream`. Use it with ``async with``.

    Leaving the block ends the command and every process that it started, unless the command
    had ended by itself. Order is kept within stdout and within stderr, not between the two.

    Example:
        >>> async def show(sandbox):
        ...     async with sandbox.stream(["seq", "3"]) as process:
        ...         async for chunk in process:
        ...             print(chunk.data.decode(), end="")
        ...         return await process.wait()
    """

    async def __aenter__(self) -> Process: ...
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def __aiter__(self) -> AsyncIterator[OutputChunk]: ...

    async def wait(self) -> ExecResult:
        """Discard output that was not consumed, and return how the command ended.

        May be called again. The result has ``streamed=True`` and no output.

        Raises:
            ExecutionTimeout: The deadline passed; the process tree is gone.
        """
        ...

    async def kill(self) -> None:
        """End the command and every process that it started. May be called again."""
        ...

    async def send(self, data: bytes | str) -> None:
        """Write to the command's stdin, as fast as it reads. Needs ``Capability.STDIN``."""
        ...

    async def send_eof(self) -> None:
        """Close the command's stdin. May be called again."""
        ...

    async def signal(self, signum: int) -> None:
        """Send a signal to the command's process group. Needs ``Capability.STDIN``."""
        ...

    @property
    def returncode(self) -> int | None:
        """The exit code, or ``None`` while the command runs."""
        ...


class AsyncSandbox(Protocol):
    """A live sandbox. ``async with`` tears it down, whatever happens in the block.

    Example:
        >>> import sandboxio
        >>> async def main():
        ...     async with await sandboxio.create("local://") as sandbox:
        ...         return (await sandbox.run(["echo", "hello"])).stdout
    """

    @property
    def id(self) -> str:
        """Unique within the backend."""
        ...

    @property
    def backend(self) -> str:
        """Name of the backend."""
        ...

    @property
    def capabilities(self) -> Capability:
        """What this very sandbox can do."""
        ...

    @property
    def isolation(self) -> IsolationTier:
        """Tier of this very sandbox."""
        ...

    @property
    def policy(self) -> AppliedPolicy:
        """What is in force, as applied and read back."""
        ...

    @property
    def files(self) -> AsyncFileSystem:
        """Its files."""
        ...

    @property
    def native(self) -> object:
        """The provider's own object, outside the stability promise."""
        ...

    async def run(
        self,
        cmd: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | str | None = None,
    ) -> ExecResult:
        """Run a command to its end.

        Args:
            cmd: A list is run as it is, without a shell. A string is run by ``/bin/sh -c``.
            timeout: Seconds; ``None`` means what is left of the sandbox's lifetime.
            env: Added to the sandbox's environment for this command.
            cwd: Working directory; a relative path starts at the sandbox's own.
            stdin: What the command reads; at its end from the start if ``None``.

        Raises:
            ExecutionTimeout: The deadline passed. The whole process tree is gone.
            SandboxGone: The sandbox no longer exists.
            OutOfMemory: The memory cap killed the command.
            OutputLimitExceeded: It wrote more than ``SBX_MAX_OUTPUT_MB`` MiB.
            PathNotFound: ``cwd`` does not exist.
        """
        ...

    async def run_code(
        self,
        code: str,
        *,
        language: str = "python",
        context_id: str | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Run source text.

        Args:
            code: The source; its length is not limited by any command line.
            language: ``"python"``, or what the backend adds.
            context_id: Keep variables under this name; needs ``Capability.STATEFUL_CODE``.
            timeout: As for `run`.
            env: As for `run`.
        """
        ...

    def stream(
        self,
        cmd: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | str | Stdin | None = None,
    ) -> Process:
        """Prepare a command whose output is handed out while it runs. Not a coroutine.

        The command starts when the returned object is entered with ``async with``. Its stdin:

        - data: is written, then comes EOF.
        - ``PIPE``: stays open for `Process.send` until `Process.send_eof`.
        - ``None``: EOF, at the latest when output is first awaited. What `Process.send` wrote
          before that comes first, and then stdin stays open as with ``PIPE``.

        Raises:
            CapabilityNotSupported: The backend does not stream. Nothing was started.
        """
        ...

    async def kill(self) -> None:
        """End the sandbox. A second call succeeds silently; a failed one may be repeated.

        Raises:
            ConnectError: The backend refused, or could not confirm it in time.
        """
        ...

    async def __aenter__(self) -> AsyncSandbox: ...
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Backend(Protocol):
    """Creates sandboxes and finds them again.

    Example:
        >>> import sandboxio
        >>> from sandboxio_local import LocalBackend
        >>> sandboxio.register("local", LocalBackend)
    """

    @property
    def name(self) -> str:
        """What a DSN calls it."""
        ...

    @property
    def capabilities(self) -> Capability:
        """What its sandboxes can do unless one of them says otherwise."""
        ...

    @property
    def isolation(self) -> IsolationTier:
        """The tier of its sandboxes."""
        ...

    async def create(
        self,
        *,
        template: str | None = None,
        resources: Resources = Resources(),
        network: NetworkPolicy = NetworkPolicy(),
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        metadata: Mapping[str, str] | None = None,
        require_isolation: IsolationTier | None = None,
    ) -> AsyncSandbox:
        """Create a usable sandbox with all policy applied, or raise and leave nothing."""
        ...

    async def connect(self, sandbox_id: str) -> AsyncSandbox:
        """Attach to a sandbox that exists; never creates one.

        Raises:
            ConnectError: There is none with that id.
        """
        ...


class ReapableBackend(Backend, Protocol):
    """A backend that can list what it holds; what `sandboxio reap` asks."""

    async def list_managed(
        self, *, labels: Mapping[str, str] | None = None
    ) -> list[ManagedSandbox]:
        """List every sandbox that sandboxio made and the provider still holds."""
        ...

    async def kill_managed(self, sandbox_id: str) -> bool:
        """Destroy one. ``False`` if there is none that sandboxio made with that id."""
        ...

    async def health(self) -> Health:
        """Say whether a sandbox could be created now."""
        ...
