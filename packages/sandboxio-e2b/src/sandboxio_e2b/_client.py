"""E2B's SDK behind the few calls that this backend makes; the only file that imports it.

Everything here runs on the loop of `Portal`. The SDK's own retries and timeouts are off: the
former would wait on the caller's behalf, and the latter fire late, in the wrong task, or not at
all. Every call is bounded by whoever makes it.
"""

from __future__ import annotations

import contextvars
import logging
import shlex
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import resources
from typing import Any, Protocol, TypeVar, cast

import httpx
from e2b import (
    ApiParams,
    AsyncCommandHandle,
    AuthenticationException,
    SandboxInfo,
    SandboxQuery,
)
from e2b_code_interpreter import (  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    AsyncSandbox,
    Execution,
    OutputMessage,
)

from sandboxio.errors import SandboxError, SandboxUnreachable
from sandboxio_e2b._credentials import hide
from sandboxio_e2b._errors import Purpose, answer_in, never_sent, translated
from sandboxio_e2b._info import Info, described

__all__ = ["Client", "Code", "Command", "Native"]

PAGE = 100
"""Sandboxes asked for at once when they are listed; the most that E2B gives."""

END_MARK = b"end_of_execution"

T = TypeVar("T")


class Code(Protocol):
    """What came of a piece of code, as far as this backend looks at it."""

    results: list[Any]
    error: Any


class Complete:
    """Notes whether the answer of an execution came to its end."""

    def __init__(self) -> None:
        self.seen = False
        self.end = False
        self._tail = b""

    def look(self, data: bytes) -> None:
        """Look at a piece of the answer."""
        self._tail = (self._tail + data)[-4096:]

    def finish(self) -> None:
        """Look at how it ended."""
        self.seen = True
        self.end = END_MARK in self._tail.rstrip().rpartition(b"\n")[2]


_execution: contextvars.ContextVar[Complete | None] = contextvars.ContextVar(
    "execution", default=None
)


def _silent(_record: logging.LogRecord) -> bool:
    """Drop what the SDK logs of a call of ours at level DEBUG: the code itself, secrets included."""
    return _execution.get() is None


class Native(AsyncSandbox):  # type: ignore[misc]  # its module has no type marker
    """E2B's own sandbox class, which also notes whether an execution's answer was cut.

    The SDK reports a truncated answer as a success, so its HTTP client is given a look at the end.
    """

    @property
    def tokens(self) -> tuple[str | None, ...]:
        """What its calls carry to prove that they may be made."""
        config = self.connection_config
        return (config.api_key, self._envd_access_token, self.traffic_access_token)

    @property
    def _client(self) -> httpx.AsyncClient:
        client: httpx.AsyncClient = super()._client
        note = _execution.get()
        if note is not None:

            async def watch(response: httpx.Response) -> None:
                stream = response.stream
                if response.is_success and isinstance(stream, httpx.AsyncByteStream):
                    response.stream = _Watched(stream, note)

            client.event_hooks = {"request": [], "response": [watch]}
        return client


class _Watched(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, note: Complete) -> None:
        self._stream = stream
        self._note = note

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._note.look(piece)
            yield piece
        self._note.finish()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Command:
    """A command that runs in the background, with its stdin open."""

    def __init__(self, client: Client, native: Native, handle: AsyncCommandHandle[Any]) -> None:
        self._client = client
        self._native = native
        self._handle = handle

    async def send(self, data: bytes, bound: float) -> None:
        """Write to its stdin, all of it or none."""
        with self._client.mapped():
            await self._native.commands.send_stdin(self._handle.pid, data, request_timeout=bound)

    async def wait(self) -> int:
        """Return its exit code; -1 if a signal ended it."""
        with self._client.mapped():
            try:
                return int((await self._handle.wait()).exit_code)
            except Exception as error:
                code = getattr(error, "exit_code", None)
                if isinstance(code, int):
                    return code  # this SDK raises what is no failure
                raise

    async def kill(self, bound: float) -> None:
        """Kill its process. Its children live on; that one is gone already is fine."""
        with self._client.mapped():
            await self._native.commands.kill(self._handle.pid, request_timeout=bound)

    async def let_go(self) -> None:
        """Stop listening, which frees the connection, and leave it running."""
        with self._client.mapped():
            await self._handle.disconnect()


class Client:
    """The calls of the control plane, for one deployment of E2B."""

    def __init__(self, domain: str | None) -> None:
        self._domain = domain
        self._natives = weakref.WeakSet[Native]()
        # Once, however often: the logger knows its filters.
        logging.getLogger(AsyncSandbox.run_code.__module__).addFilter(_silent)

    @contextmanager
    def mapped(self, purpose: Purpose = Purpose.USE) -> Generator[None, None, None]:
        """Turn what the SDK raises into errors of sandboxio, without credentials of this host."""
        try:
            yield
        except SandboxError:
            raise
        except Exception as error:  # noqa: BLE001 - it is raised again, as what it is to a caller
            tokens = [token for native in self._natives for token in native.tokens]
            cause = hide(error, tokens)
            raise translated(error, purpose) from cause

    def _options(self) -> ApiParams:
        options = ApiParams(retries=0, request_timeout=0)
        if self._domain is not None:
            options["domain"] = self._domain
        return options

    async def create(
        self,
        *,
        template: str | None,
        timeout: int,
        metadata: dict[str, str],
        allow: tuple[str, ...],
        internet: bool,
        key: str,
    ) -> Native:
        """Create a sandbox, or find the one that was created with the same key before."""
        with self.mapped(Purpose.CREATE):
            native: Native = await Native.create(
                template,
                timeout,
                metadata,
                allow_internet_access=None if allow else internet,
                network={"allow_out": list(allow), "deny_out": ["0.0.0.0/0"]} if allow else None,
                idempotency_key=key,
                **self._options(),
            )
        self._natives.add(native)
        return native

    async def info(self, sandbox_id: str) -> Info | None:
        """Return what E2B says of a sandbox, or ``None`` if it has none of that id."""

        async def look() -> Info:
            with self.mapped(Purpose.MANAGE):
                return described(await Native.get_info(sandbox_id, **self._options()))

        try:
            return await _twice(look)
        except SandboxError as error:
            if _unknown(error):
                return None
            raise

    async def attach(self, sandbox_id: str) -> Native:
        """Return the SDK's object for a sandbox that runs.

        The SDK's ``connect`` is no look but a change: it sets a lifetime, and it resumes. The one
        that is asked for here is a second, which never shortens what is left and cannot lengthen it
        beyond that.
        """
        with self.mapped(Purpose.MANAGE):
            native = cast("Native", await Native.connect(sandbox_id, 1, **self._options()))
        self._natives.add(native)
        return native

    async def kill(self, sandbox_id: str) -> bool:
        """End a sandbox; ``False`` if there is none."""
        asked = 0

        async def end() -> bool:
            nonlocal asked
            asked += 1
            with self.mapped(Purpose.MANAGE):
                return bool(await Native.kill(sandbox_id, **self._options()))

        # If there is none the second time, it was the first that ended it.
        return await _twice(end) or asked > 1

    async def list(self, metadata: Mapping[str, str]) -> list[Info]:
        """List the sandboxes, running or paused, that have all of this metadata."""
        found: list[Info] = []
        pages = Native.list(SandboxQuery(metadata=dict(metadata)), PAGE, **self._options())

        async def page() -> list[SandboxInfo]:
            with self.mapped(Purpose.MANAGE):
                return list(await pages.next_items())

        while pages.has_next:
            found += [described(item) for item in await _twice(page)]
        return found

    async def run(
        self,
        native: Native,
        command: str,
        on_stdout: Callable[[str], Awaitable[None]],
        on_stderr: Callable[[str], Awaitable[None]],
        bound: float,
    ) -> Command:
        """Start a command in the background.

        ``timeout=0``: otherwise the SDK cancels the task that called this, whenever that is.
        """
        with self.mapped():
            handle = await native.commands.run(
                command,
                background=True,
                stdin=True,
                timeout=0,
                request_timeout=bound,
                on_stdout=on_stdout,
                on_stderr=on_stderr,
                retain_output=False,
            )
        return Command(self, native, handle)

    async def create_context(self, native: Native, language: str, bound: float) -> Any:
        """Start an interpreter."""
        with self.mapped():
            return await native.create_code_context(language=language, request_timeout=bound)

    async def remove_context(self, native: Native, context: Any) -> None:
        """End an interpreter; that there is none of that id is fine."""
        try:
            with self.mapped():
                await native.remove_code_context(context)
        except SandboxError as error:
            if not _unknown(error):
                raise

    async def end_started(self, native: Native, mark: str, session: int, bound: float) -> bool:
        """Kill what code has started and left behind; says whether nothing is left.

        As root, for that is who E2B's interpreters are; where nobody is, as who commands are.
        """
        script = resources.files("sandboxio_e2b.inside").joinpath("ended.py").read_text()
        line = shlex.join(("python3", "-I", "-S", "-c", script, mark, str(session)))
        run = native.commands.run
        with self.mapped():
            try:
                handle = await run(line, True, user="root", timeout=0, request_timeout=bound)
            except AuthenticationException:
                handle = await run(line, True, timeout=0, request_timeout=bound)
        return await Command(self, native, handle).wait() == 0

    async def execute(
        self,
        native: Native,
        code: str,
        context: Any,
        on_stdout: Callable[[OutputMessage], None],
        on_stderr: Callable[[OutputMessage], None],
    ) -> tuple[Execution, bool]:
        """Run code in an interpreter; also returns whether all of the answer came."""
        note = Complete()
        token = _execution.set(note)
        try:
            with self.mapped():
                done = await native.run_code(
                    code,
                    context=context,
                    timeout=0,
                    request_timeout=0,
                    on_stdout=on_stdout,
                    on_stderr=on_stderr,
                )
        finally:
            _execution.reset(token)
        return done, note.end


async def _twice(ask: Callable[[], Awaitable[T]]) -> T:
    """Make a call that may be repeated, and repeat it if its connection broke.

    When a sandbox ends, so do connections to it, and the SDK may take one of them for what comes
    next before it notices.
    """
    try:
        return await ask()
    except SandboxUnreachable as error:
        cause = error.__cause__
        if cause is None or never_sent(error) or answer_in(cause) is not None:
            raise
        return await ask()


def _unknown(error: SandboxError) -> bool:
    cause = error.__cause__
    if cause is None:
        return False
    answer = answer_in(cause)
    return type(cause).__name__ == "SandboxNotFoundException" or (
        answer is not None and answer.status in (400, 404)
    )
