"""The public `Process`: a streamed command."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType

from ..errors import ConfigurationError, ConnectError, SandboxGone
from ..models import Capability, ExecResult, OutputChunk
from .execution import Execution
from .live import LiveSandbox
from .validation import check_data, check_signal

__all__ = ["EngineProcess"]


class EngineProcess:
    """A streamed command; nothing is open between two calls of it."""

    def __init__(self, execution: Execution, *, lazy_eof: bool) -> None:
        self._execution = execution
        self._live: LiveSandbox = execution.live
        # Entered and left in two calls, which may be made from two tasks.
        self._operation = self._live.operation(
            "stream", argv=execution.command.argv, spans_calls=True
        )
        self._lazy_eof = lazy_eof
        self._state = "new"

    def __repr__(self) -> str:
        code = self.returncode
        state = self._state if code is None else f"exited {code}"
        return f"<Process {self._live.backend}:{self._live.driver.id[:24]} {state}>"

    @property
    def returncode(self) -> int | None:
        """The exit code, or ``None`` while the command runs."""
        ended = self._execution.exit
        return None if ended is None else ended.exit_code

    async def __aenter__(self) -> EngineProcess:
        if self._state != "new":
            raise ConfigurationError(
                "A stream can be entered once.", hint="Call stream() again for another run."
            )
        self._state = "running"
        record = await self._operation.__aenter__()
        try:
            await self._execution.start(record)
        except BaseException as error:
            await self._operation.close(error, failing=True)
            raise
        self._live.entered(self._operation)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._state in ("new", "left"):
            return
        self._state = "left"
        self._live.left(self._operation)
        # An error of the block is the user's own: the command did not fail by it.
        error = None if isinstance(exc, Exception) else exc
        try:
            try:
                await self._execution.kill()
            finally:
                await self._execution.release()
        except BaseException as cut:
            error = cut
            raise
        finally:
            await self._operation.close(error, failing=exc is not None or error is not None)

    def __aiter__(self) -> EngineProcess:
        return self

    async def __anext__(self) -> OutputChunk:
        chunk = await self._receive()
        if chunk is None:
            self._execution.raise_for_cause()
            raise StopAsyncIteration
        return chunk

    async def _receive(self) -> OutputChunk | None:
        self._ensure_started()
        if self._lazy_eof:
            await self.send_eof()
        async with self._call():
            return await self._execution.receive()
        raise AssertionError("unreachable")

    async def wait(self) -> ExecResult:
        """Discard the rest of the output and return how the command ended."""
        while await self._receive() is not None:
            pass
        self._execution.raise_for_cause()
        ended = self._execution.exit
        if ended is None:
            raise SandboxGone("How the command ended is not known: its sandbox ended with it.")
        return ExecResult(ended.exit_code, "", "", meter=self._execution.meter, streamed=True)

    async def kill(self) -> None:
        """End the command and every process that it started."""
        self._ensure_started()
        async with self._call():
            confirmed = await self._execution.kill()
        if not confirmed:
            raise ConnectError(
                "The command could not be confirmed as killed, and its sandbox could not be ended.",
                hint=f"sandboxio reap --backend {self._live.backend} --kill",
                retryable=True,
            )

    async def send(self, data: bytes | str) -> None:
        """Write to the command's stdin."""
        checked = check_data(data, "data")
        self._require_stdin("Process.send()")
        if not self._execution.command.keep_stdin_open or self._state == "eof":
            raise ConfigurationError(
                "The command's stdin is closed.",
                hint="Pass stdin=sandboxio.PIPE to stream(), and send before send_eof().",
            )
        self._lazy_eof = False
        self._execution.record.bytes_in += len(checked)
        async with self._call():
            await self._execution.within(lambda: self._execution.process.send(checked))

    async def send_eof(self) -> None:
        """Close the command's stdin."""
        self._ensure_started()
        if self._execution.command.keep_stdin_open and self._state == "running":
            self._lazy_eof = False
            self._state = "eof"
            async with self._call():
                await self._execution.within(self._execution.process.send_eof)

    async def signal(self, signum: int) -> None:
        """Send a signal to the command's process group."""
        checked = check_signal(signum)
        self._require_stdin("Process.signal()")
        async with self._call():
            await self._execution.within(lambda: self._execution.process.signal(checked))

    @asynccontextmanager
    async def _call(self) -> AsyncGenerator[None, None]:
        """Make one of the calls that the operation spans."""
        self._operation.calls += 1
        try:
            yield
        except SandboxGone as gone:
            # More will not come of it, and whoever gets this may never leave the block.
            self._live.left(self._operation)
            await self._operation.close(gone, failing=True)
            raise
        finally:
            self._operation.calls -= 1

    def _require_stdin(self, what: str) -> None:
        self._ensure_started()
        self._live.require(Capability.STDIN, what)

    def _ensure_started(self) -> None:
        if self._state == "new":
            raise ConfigurationError(
                "The stream was not entered.", hint="async with sandbox.stream(...) as process:"
            )
