"""A program inside a served sandbox, and requests to it: JSON lines on its stdin and stdout."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine
from importlib import resources
from typing import Any

from sandboxio import PIPE, AsyncSandbox, SandboxError

__all__ = ["Inside", "Program", "Refusal"]

START_BOUND = 90.0
"""Seconds for a program to start; it takes a tenth of one."""

STDERR_KEPT = 8
"""Pieces of what a program wrote to stderr that are kept for an error message."""

Message = dict[str, Any]


class Refusal(Exception):
    """The program's own error answer."""

    def __init__(self, error: Message) -> None:
        super().__init__(str(error))
        self.error = error


class Ended(Exception):
    """The program is not there any more; so the sandbox is not either."""


class Inside:
    """Where the programs' interpreter and packages are in a sandbox."""

    python = "/opt/e2b/python"
    site = "/opt/e2b/site"
    home = "/home/user"

    def __init__(self, version: str) -> None:
        self.interpreter = f"{self.python}/bin/python{version}"

    @property
    def env(self) -> dict[str, str]:
        """Environment of a program, not of what it starts."""
        return {"LD_LIBRARY_PATH": f"{self.python}/lib", "PYTHONPATH": self.site}


class Program:
    """One program of the folder ``inside`` in one sandbox."""

    def __init__(self) -> None:
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._lines: dict[int, Callable[[Message], None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last = 0
        self._process: Any = None
        self._reader: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._sending = asyncio.Lock()
        self._stderr: deque[bytes] = deque(maxlen=STDERR_KEPT)
        self.ended = False

    @classmethod
    async def start(
        cls,
        sandbox: AsyncSandbox,
        name: str,
        inside: Inside,
        lifetime: float,
        on_event: Callable[[Message], None],
        *,
        packages: bool,
    ) -> Program:
        """Start a program and wait until it is ready.

        Args:
            sandbox: Where.
            name: Of its file, without ``.py``.
            inside: Where its interpreter is.
            lifetime: Seconds that it may run.
            on_event: Called with each message that answers no request.
            packages: Whether it needs the packages of this environment.
        """
        program = cls()
        source = resources.files("sandboxio_testing.e2b.inside").joinpath(f"{name}.py").read_text()
        env = inside.env if packages else {"LD_LIBRARY_PATH": inside.env["LD_LIBRARY_PATH"]}
        options = "-B" if packages else "-IBS"
        program._process = sandbox.stream(
            [inside.interpreter, options, "-c", source], stdin=PIPE, timeout=lifetime, env=env
        )
        await program._process.__aenter__()
        program._reader = asyncio.create_task(program._read(on_event))
        async with asyncio.timeout(START_BOUND):
            await program._ready.wait()
        if program.ended:
            raise Ended(f"{name}: {b''.join(program._stderr).decode(errors='replace')[-2000:]}")
        return program

    async def _read(self, on_event: Callable[[Message], None]) -> None:
        rest = b""
        try:
            async for chunk in self._process:
                if chunk.stream == "stderr":
                    self._stderr.append(chunk.data)
                    continue
                *lines, rest = (rest + chunk.data).split(b"\n")
                for line in lines:
                    self._dispatch(json.loads(line), on_event)
        except SandboxError:
            pass  # the sandbox was ended, or its lifetime is over
        finally:
            self.ended = True
            self._ready.set()
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(Ended("the sandbox ended"))
                    answer.exception()  # whoever asked may have left
            on_event({"ended": True})

    def _dispatch(self, message: Message, on_event: Callable[[Message], None]) -> None:
        ident = message.get("id")
        if ident is None:
            if "ready" in message:
                self._ready.set()
            else:
                on_event(message)
        elif "line" in message:
            if ident in self._lines:
                self._lines[ident](message["line"])
        else:
            answer = self._answers.get(ident)
            if answer is None or answer.done():
                return
            if "error" in message:
                answer.set_exception(Refusal(message["error"]))
            else:
                answer.set_result(message["ok"])

    async def ask(
        self, op: str, request: Message, on_line: Callable[[Message], None] | None = None
    ) -> Any:
        """Make a request and return its answer.

        Raises:
            Refusal: The answer is an error.
            Ended: There is nobody to ask.
        """
        ident = await self.post(op, request, on_line)
        try:
            return await self._answers[ident]
        finally:
            self.forget(ident)

    async def post(
        self, op: str, request: Message, on_line: Callable[[Message], None] | None = None
    ) -> int:
        """Send a request and return its id, for `answer_of`."""
        if self.ended:
            raise Ended("the sandbox ended")
        self._last += 1
        ident = self._last
        self._answers[ident] = asyncio.get_running_loop().create_future()
        if on_line is not None:
            self._lines[ident] = on_line
        data = json.dumps({"id": ident, "op": op, **request}).encode() + b"\n"
        try:
            async with self._sending:
                # A line that is cut would be the end of everything, so it goes in one piece.
                await asyncio.shield(asyncio.ensure_future(self._process.send(data)))
        except SandboxError as error:
            raise Ended("the sandbox ended") from error
        return ident

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something about it that nobody waits for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def answer_of(self, ident: int) -> asyncio.Future[Any]:
        """Return the answer of a request that was posted."""
        return self._answers[ident]

    def forget(self, ident: int) -> None:
        """Drop what is held for a request."""
        self._answers.pop(ident, None)
        self._lines.pop(ident, None)

    async def close(self) -> None:
        """Stop listening to it; the sandbox itself is ended by its owner."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])
