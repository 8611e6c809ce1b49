"""Interpreters of one sandbox: E2B's code contexts, under the names that callers give them."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from sandboxio.errors import (
    CapabilityNotSupported,
    OutputLimitExceeded,
    ProviderError,
    SandboxError,
    SandboxGone,
    SandboxUnreachable,
)
from sandboxio.models import Capability, RichOutput
from sandboxio.spi import CodeResult

if TYPE_CHECKING:
    from sandboxio_e2b._client import Client, Native

__all__ = ["Contexts"]

CREATE_BOUND = 60.0
"""Seconds for E2B to start an interpreter; it takes about one."""

END_BOUND = 4.0
"""Seconds to end an interpreter and what it has started; it takes a fraction of one."""

MARK = "SANDBOXIO_CONTEXT"
"""A variable of all that code in Python starts, by which it is found when it has to end."""

BEGIN = """\
import os
os.environ[{name!r}] = {value!r}
print(os.getpid() if os.getsid(0) == os.getpid() else 0)
"""

MAX_OUTPUT = 64 << 20
"""Characters that one call may return; the SDK holds all of them in memory."""

LANGUAGES = frozenset(("python", "javascript", "typescript", "r", "java", "bash"))

ENDED = frozenset(("UnexpectedEndOfExecution", "ContextRestarting"))
"""Names of errors that are not the code's own: its interpreter ended under it."""

MIME_TYPES = {
    "text": "text/plain",
    "html": "text/html",
    "markdown": "text/markdown",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "pdf": "application/pdf",
    "latex": "text/latex",
    "json": "application/json",
    "javascript": "application/javascript",
    "data": "application/vnd.e2b.data+json",
}

COLOURS = re.compile(r"\x1b\[[0-9;]*m")

ENVIRONMENT = """\
import json, os, sys
wanted = json.loads({values!r})
saved = sys.__dict__.setdefault("_sandboxio_environ", {{}})
for name in [name for name in saved if name not in wanted]:
    before = saved.pop(name)
    os.environ.pop(name, None)
    if before is not None:
        os.environ[name] = before
for name, value in wanted.items():
    saved.setdefault(name, os.environ.get(name))
    os.environ[name] = value
"""


class Context:
    """One interpreter, and whose turn it is."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.native: Any = None
        self.mark = ""
        self.session = 0
        self.env: dict[str, str] = {}


class Contexts:
    """Runs code; all of it on the portal's loop."""

    def __init__(self, client: Client, native: Native) -> None:
        self._client = client
        self._native = native
        self._contexts: dict[tuple[str, str], Context] = {}
        self.stuck = False
        """Whether an interpreter could not be ended, so that code may still run in it."""

    async def run(
        self, code: str, language: str, context_id: str | None, env: Mapping[str, str]
    ) -> CodeResult:
        """Run code in the interpreter of that name, or in one that nobody else has.

        Raises:
            CapabilityNotSupported: E2B has no such language, or no way to hand variables to it.
        """
        language = language.lower()
        if language not in LANGUAGES:
            raise CapabilityNotSupported(
                f"E2B runs no code in {language!r}.",
                capability=Capability.RUN_CODE,
                hint=f"It runs: {', '.join(sorted(LANGUAGES))}. Or run() an interpreter.",
            )
        if env and language != "python":
            # The SDK would paste the values into the source, between quotes.
            raise CapabilityNotSupported(
                f"Environment variables cannot be handed to code in {language!r} as data.",
                capability=Capability.RUN_CODE,
                hint="Create the sandbox and run the code without env and secrets.",
            )
        if context_id is None:
            context = Context()
        else:
            context = self._contexts.setdefault((language, context_id), Context())
        async with context.lock:
            try:
                result = await self._in(context, code, language, env)
            except BaseException:
                # The interpreter may still run the code. Interrupting it is not enough: E2B takes
                # new code before it is interrupted, loses that, and never answers.
                if not await self._ended(context):
                    self.stuck = True
                raise
            if context_id is None:
                await self._ended(context)
            return result

    async def _in(
        self, context: Context, code: str, language: str, env: Mapping[str, str]
    ) -> CodeResult:
        if context.native is None:
            await self._begin(context, language, env)
        if dict(env) != context.env:
            await self._execute(context, _hidden(_environment(env)))
            context.env = dict(env)
        return await self._execute(context, code)

    async def _execute(self, context: Context, code: str) -> CodeResult:
        output = _Output()
        done, complete = await self._client.execute(
            self._native, code, context.native, output.stdout, output.stderr
        )
        error: Any = done.error
        if error is not None and error.name in ENDED:
            raise ProviderError(f"The interpreter ended while it ran the code: {error.name}.")
        if not complete:
            raise SandboxUnreachable(
                "The answer of the interpreter was cut off, so what it says is not the whole.",
                hint="Whether the code ran to its end is not known; its context was ended.",
            )
        stderr = "".join(output.err)
        if error is not None:
            stderr += COLOURS.sub("", error.traceback or f"{error.name}: {error.value}") + "\n"
        return CodeResult(
            _exit_code(error),
            _encoded("".join(output.out)),
            _encoded(stderr),
            tuple(item for result in done.results for item in _outputs(result)),
        )

    async def _begin(self, context: Context, language: str, env: Mapping[str, str]) -> None:
        """Start an interpreter, and let what it will start be known from the rest."""
        async with asyncio.timeout(CREATE_BOUND):
            context.native = await self._client.create_context(self._native, language, CREATE_BOUND)
        if language == "python":
            name, value = MARK, secrets.token_hex(8)
            context.mark = f"{name}={value}"
            script = BEGIN.format(name=name, value=value) + _environment(env)
            told = await self._execute(context, _hidden(script))
            context.env = dict(env)
            session = told.stdout.strip()
            context.session = int(session) if session.isdigit() else 0

    async def _ended(self, context: Context) -> bool:
        """End an interpreter and what it has started, for the next call to start another.

        Says whether nothing of it is left.
        """
        native, context.native, context.env = context.native, None, {}
        if native is None:
            return True
        try:
            async with asyncio.timeout(END_BOUND):
                await self._client.remove_context(self._native, native)
                return not context.mark or await self._client.end_started(
                    self._native, context.mark, context.session, END_BOUND
                )
        except SandboxGone:
            return True
        except (SandboxError, TimeoutError):
            return False


class _Output:
    """What code wrote, up to a bound."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.err: list[str] = []
        self._size = 0

    def stdout(self, message: Any) -> None:
        self._keep(self.out, message.line)

    def stderr(self, message: Any) -> None:
        self._keep(self.err, message.line)

    def _keep(self, kept: list[str], text: str) -> None:
        self._size += len(text)
        if self._size > MAX_OUTPUT:
            raise OutputLimitExceeded(
                f"The code wrote more than {MAX_OUTPUT} characters, and its context was ended.",
                limit="output of run_code",
                value=MAX_OUTPUT,
                hint="Write to a file in the sandbox, and download that.",
            )
        kept.append(text)


def _environment(env: Mapping[str, str]) -> str:
    """Return a script that makes variables those of an interpreter."""
    return ENVIRONMENT.format(values=json.dumps(dict(env)))


def _hidden(script: str) -> str:
    """Return a statement that runs a script and leaves no name behind."""
    encoded = base64.b64encode(script.encode()).decode()
    return f'exec(__import__("base64").b64decode("{encoded}").decode(), {{}})'


def _exit_code(error: Any) -> int:
    if error is None:
        return 0
    if error.name == "SystemExit":
        text = (error.value or "").strip()
        if text in ("", "None"):
            return 0
        return int(text) & 0xFF if text.lstrip("-").isdigit() else 1
    return 1


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape" if _escaped(text) else "backslashreplace")


def _escaped(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _outputs(result: Any) -> list[RichOutput]:
    found: list[RichOutput] = []
    for name, mime in MIME_TYPES.items():
        value: object = getattr(result, name, None)
        if value is not None:
            found.append(RichOutput(mime, value if isinstance(value, str) else json.dumps(value)))
    extra: object = getattr(result, "extra", None)
    if isinstance(extra, Mapping):
        for mime, more in cast("Mapping[str, object]", extra).items():
            found.append(RichOutput(mime, more if isinstance(more, str) else json.dumps(more)))
    return found
