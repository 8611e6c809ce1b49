"""What the tools of all frameworks share: the words for the model, one bounded call, and its text.

A framework's module only wraps this in the objects of its framework.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias

import anyio.to_thread

from .._api.sync_sandbox import Sandbox, open_sandbox
from .._engine.validation import check_timeout
from ..errors import ConfigurationError, SandboxError
from ..models import ExecResult
from ..protocols import AsyncSandbox
from ._model_text import explain, limits_in_words, render

__all__ = ["CALL_TIMEOUT", "OUTPUT_LIMIT", "ModelTools", "SandboxSource", "check_blocking"]

SandboxSource: TypeAlias = AsyncSandbox | Sandbox | Callable[[], Awaitable[AsyncSandbox]]
"""A sandbox of the caller's, which no tool ever closes, or a function that makes a new one for each
call, which ends with the call: ``functools.partial(sandboxio.create, "local://")``."""

CALL_TIMEOUT = 60.0
"""Seconds that one call of a tool may take when nothing else is said; then what it started is ended."""

OUTPUT_LIMIT = 20_000
"""Characters of output that one call hands to the model when nothing else is said."""

SMALLEST_OUTPUT_LIMIT = 200
"""Characters below which a limit would leave no room for what a program has to say."""


def check_blocking(sandbox: object, framework: str) -> Sandbox:
    """Return a sandbox that can be used from any thread, for frameworks that know no event loop."""
    if isinstance(sandbox, Sandbox):
        return sandbox
    raise ConfigurationError(
        f"{framework} works in threads, where {type(sandbox).__name__} cannot be used.",
        hint="Pass a sandbox of create_sync().",
    )


class ModelTools:
    """The two calls that a model is offered, `run_python` and `run_command`.

    Both return text whatever happens in the sandbox: a `SandboxError` comes back as its message,
    code and fix. Any other exception is somebody else's, and is raised.
    """

    def __init__(self, source: SandboxSource, *, timeout: float, max_output: int) -> None:
        if not (callable(source) or hasattr(source, "run_code")):
            raise ConfigurationError(
                f"The tools need a sandbox, not {type(source).__name__}.",
                hint="Pass what create() or create_sync() returned, or a function that creates one.",
            )
        if isinstance(max_output, bool) or max_output < SMALLEST_OUTPUT_LIMIT:
            raise ConfigurationError(
                f"max_output must be at least {SMALLEST_OUTPUT_LIMIT} characters, not {max_output}."
            )
        self._source = source
        self._timeout = check_timeout(timeout)
        self._max_output = max_output

    @property
    def can_block(self) -> bool:
        """Whether the calls that end in ``_sync`` work.

        They do not with a sandbox of `create`: it lives in an event loop, and who blocks is in none.
        """
        return isinstance(self._source, Sandbox) or callable(self._source)

    @property
    def about_python(self) -> str:
        """What `run_python` is, for the model."""
        return (
            "Run Python 3 source code in an isolated Linux sandbox and return what it printed. "
            "Print whatever you want to see: the value of the last line is not shown. "
            "Every call is a new interpreter, so variables do not carry over"
            f"{self._kept}. {self._limits}"
        )

    @property
    def about_command(self) -> str:
        """What `run_command` is, for the model."""
        return (
            "Run a command with /bin/sh in an isolated Linux sandbox and return its output. "
            "It cannot ask for input. "
            "Every call is a new shell, so `cd` and variables do not carry over"
            f"{self._kept}. {self._limits}"
        )

    @property
    def _kept(self) -> str:
        if callable(self._source):
            return ", and neither do files: every call has a new, empty sandbox"
        return "; files in the working directory do"

    @property
    def _limits(self) -> str:
        network = None if callable(self._source) else self._source.policy.network
        return limits_in_words(network, self._timeout, self._max_output)

    async def run_python(self, code: str) -> str:
        """Run source text and return the text for the model."""
        if isinstance(self._source, Sandbox):
            return await anyio.to_thread.run_sync(self.run_python_sync, code)
        return await self._answer(lambda sandbox: sandbox.run_code(code, timeout=self._timeout))

    async def run_command(self, command: str) -> str:
        """Run a shell command and return the text for the model."""
        if isinstance(self._source, Sandbox):
            return await anyio.to_thread.run_sync(self.run_command_sync, command)
        return await self._answer(lambda sandbox: sandbox.run(command, timeout=self._timeout))

    def run_python_sync(self, code: str) -> str:
        """Run source text for a caller without an event loop; see `can_block`."""
        return self._answer_sync(lambda sandbox: sandbox.run_code(code, timeout=self._timeout))

    def run_command_sync(self, command: str) -> str:
        """Run a shell command for a caller without an event loop; see `can_block`."""
        return self._answer_sync(lambda sandbox: sandbox.run(command, timeout=self._timeout))

    async def _answer(self, call: Callable[[AsyncSandbox], Awaitable[ExecResult]]) -> str:
        try:
            async with self._opened() as sandbox:
                return render(await call(sandbox), self._max_output)
        except SandboxError as error:
            return explain(error, self._max_output)

    def _answer_sync(self, call: Callable[[Sandbox], ExecResult]) -> str:
        try:
            with self._opened_sync() as sandbox:
                return render(call(sandbox), self._max_output)
        except SandboxError as error:
            return explain(error, self._max_output)

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[AsyncSandbox]:
        source = self._source
        assert not isinstance(source, Sandbox)
        if callable(source):
            async with await source() as made:
                yield made
        else:
            yield source

    @contextmanager
    def _opened_sync(self) -> Generator[Sandbox]:
        source = self._source
        if isinstance(source, Sandbox):
            yield source
        elif callable(source):
            with open_sandbox(source) as made:
                yield made
        else:
            raise ConfigurationError(
                "A sandbox of create() cannot be used without its event loop.",
                hint="Use the framework's async calls, or pass a sandbox of create_sync().",
            )
