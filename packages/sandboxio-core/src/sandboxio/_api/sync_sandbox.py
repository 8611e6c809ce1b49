"""A sandbox for callers without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, cast

from ..models import AppliedPolicy, Capability, ExecResult, IsolationTier, Stdin
from ..protocols import AsyncSandbox, Process
from .sync_files import SyncFileSystem
from .sync_portal import Portal
from .sync_process import SyncProcess

if TYPE_CHECKING:
    from ..routing import RouteDecision

__all__ = ["Sandbox", "open_sandbox"]


class Sandbox:
    """A live sandbox, from `create_sync` or `connect_sync`; `AsyncSandbox` without ``async``.

    It has a thread of its own, which `close`, or leaving its ``with`` block, ends. Any number of
    threads may use one at once.

    Example:
        >>> import sandboxio
        >>> def main() -> str:
        ...     with sandboxio.create_sync("local://") as sandbox:
        ...         return sandbox.run(["echo", "hello"]).stdout
    """

    def __init__(self, portal: Portal, sandbox: AsyncSandbox) -> None:
        self._portal = portal
        self._sandbox = sandbox
        self._files = SyncFileSystem(portal, sandbox.files)

    def __repr__(self) -> str:
        return repr(self._sandbox)

    @property
    def id(self) -> str:
        """Unique within the backend."""
        return self._sandbox.id

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return self._sandbox.backend

    @property
    def route(self) -> RouteDecision | None:
        """The decision of the router that created it, or ``None`` if none did."""
        return cast("RouteDecision | None", getattr(self._sandbox, "route", None))

    @property
    def capabilities(self) -> Capability:
        """What this very sandbox can do."""
        return self._sandbox.capabilities

    @property
    def isolation(self) -> IsolationTier:
        """Tier of this very sandbox."""
        return self._sandbox.isolation

    @property
    def policy(self) -> AppliedPolicy:
        """What is in force, as applied and read back."""
        return self._sandbox.policy

    @property
    def files(self) -> SyncFileSystem:
        """Its files."""
        return self._files

    @property
    def native(self) -> object:
        """The provider's own object, outside the stability promise; it belongs to the loop."""
        return self._sandbox.native

    def run(
        self,
        cmd: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | str | None = None,
    ) -> ExecResult:
        """Run a command to its end; see `AsyncSandbox.run`."""
        return self._portal.call(
            partial(self._sandbox.run, cmd, timeout=timeout, env=env, cwd=cwd, stdin=stdin)
        )

    def run_code(
        self,
        code: str,
        *,
        language: str = "python",
        context_id: str | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Run source text; see `AsyncSandbox.run_code`."""
        return self._portal.call(
            partial(
                self._sandbox.run_code,
                code,
                language=language,
                context_id=context_id,
                timeout=timeout,
                env=env,
            )
        )

    def stream(
        self,
        cmd: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | str | Stdin | None = None,
    ) -> SyncProcess:
        """Prepare a command whose output is handed out while it runs; see `AsyncSandbox.stream`."""

        async def prepare() -> Process:
            return self._sandbox.stream(cmd, timeout=timeout, env=env, cwd=cwd, stdin=stdin)

        return SyncProcess(self._portal, self._portal.call(prepare))

    def kill(self) -> None:
        """End the sandbox. A second call succeeds silently, as does one after `close`."""
        if not self._portal.closed:
            self._portal.call(self._sandbox.kill)

    def close(self) -> None:
        """Leave the sandbox as the end of a ``with`` block does, and end its thread.

        A sandbox of `create_sync` is ended, one of `connect_sync` is let go of and runs on. May be
        called again.
        """
        self._portal.close()

    def __enter__(self) -> Sandbox:
        self._portal.call(self._sandbox.__aenter__)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A forked child that leaves the block ends nothing: the sandbox is its parent's.
        if self._portal.is_of_this_process():
            self._portal.close(exc_type, exc, traceback)


def open_sandbox(make: Callable[[], Awaitable[AsyncSandbox]]) -> Sandbox:
    """Make a sandbox in a portal of its own; if that fails or is interrupted, nothing is left."""
    made: list[AsyncSandbox] = []

    async def begin() -> AsyncSandbox:
        made.append(await make())
        return made[0]

    async def end(
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for sandbox in made:
            await sandbox.__aexit__(exc_type, exc, traceback)

    portal = Portal(end)
    try:
        return Sandbox(portal, portal.call(begin))
    except BaseException as error:
        portal.close(type(error), error, error.__traceback__)
        raise
