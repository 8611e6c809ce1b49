"""A sandbox that knows its route, whoever made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, cast

from ..models import AppliedPolicy, Capability, ExecResult, IsolationTier, Stdin
from ..protocols import AsyncFileSystem, AsyncSandbox, Process
from ._decision import RouteDecision

__all__ = ["RoutedSandbox", "with_route"]


class RoutedSandbox(AsyncSandbox, Protocol):
    """A sandbox that a router created.

    Example:
        >>> from sandboxio.routing import Router
        >>> async def where() -> str | None:
        ...     async with await Router.default().create() as sandbox:
        ...         return sandbox.route.taken
    """

    @property
    def route(self) -> RouteDecision:
        """The decision that led to it."""
        ...

    async def __aenter__(self) -> RoutedSandbox: ...


def with_route(sandbox: AsyncSandbox, decision: RouteDecision) -> RoutedSandbox:
    """Return a sandbox with its route: itself if the engine made it, else the same with one more."""
    if getattr(sandbox, "route", None) is decision:
        return cast("RoutedSandbox", sandbox)
    return _WithRoute(sandbox, decision)


class _WithRoute:
    """Passes every call on to a sandbox whose backend does without the engine."""

    def __init__(self, sandbox: AsyncSandbox, decision: RouteDecision) -> None:
        self._sandbox = sandbox
        self._decision = decision

    def __repr__(self) -> str:
        return repr(self._sandbox)

    @property
    def route(self) -> RouteDecision:
        return self._decision

    @property
    def id(self) -> str:
        return self._sandbox.id

    @property
    def backend(self) -> str:
        return self._sandbox.backend

    @property
    def capabilities(self) -> Capability:
        return self._sandbox.capabilities

    @property
    def isolation(self) -> IsolationTier:
        return self._sandbox.isolation

    @property
    def policy(self) -> AppliedPolicy:
        return self._sandbox.policy

    @property
    def files(self) -> AsyncFileSystem:
        return self._sandbox.files

    @property
    def native(self) -> object:
        return self._sandbox.native

    async def run(
        self,
        cmd: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | str | None = None,
    ) -> ExecResult:
        return await self._sandbox.run(cmd, timeout=timeout, env=env, cwd=cwd, stdin=stdin)

    async def run_code(
        self,
        code: str,
        *,
        language: str = "python",
        context_id: str | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        return await self._sandbox.run_code(
            code, language=language, context_id=context_id, timeout=timeout, env=env
        )

    def stream(
        self,
        cmd: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | str | Stdin | None = None,
    ) -> Process:
        return self._sandbox.stream(cmd, timeout=timeout, env=env, cwd=cwd, stdin=stdin)

    async def kill(self) -> None:
        await self._sandbox.kill()

    async def __aenter__(self) -> RoutedSandbox:
        await self._sandbox.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._sandbox.__aexit__(exc_type, exc, traceback)
