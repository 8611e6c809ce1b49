"""One command from its start to its end, under one deadline."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from .._observe.record import Record
from ..errors import (
    DiskFull,
    ExecutionTimeout,
    OutOfMemory,
    OutputLimitExceeded,
    ProcessLimitExceeded,
    SandboxError,
)
from ..models import AppliedCap, ExecResult, Meter, OutputChunk
from ..spi import Command, ExitCause, ProcessDriver, ProcessExit, run_to_the_end
from .live import LiveSandbox
from .output import CollectedOutput
from .settings import max_output_bytes, teardown_grace

__all__ = ["Execution"]


class Execution:
    """A command that is about to run, runs, or has ended.

    Whoever holds one calls `kill` when anything goes wrong; after that nothing of the command is
    left, or the sandbox itself was ended as the last resort.
    """

    def __init__(self, live: LiveSandbox, command: Command) -> None:
        self.live = live
        self.command = command
        self.exit: ProcessExit | None = None
        self._process: ProcessDriver | None = None
        self._record: Record | None = None
        self._ends_at = 0.0

    @property
    def process(self) -> ProcessDriver:
        """The driver's process, once started."""
        assert self._process is not None, "not started"
        return self._process

    @property
    def record(self) -> Record:
        """The record of the operation that this is, once started."""
        assert self._record is not None, "not started"
        return self._record

    @property
    def meter(self) -> Meter:
        """What it has taken, or has until now."""
        return self.record.meter

    async def start(self, record: Record) -> None:
        """Start it; the deadline counts from here."""
        self._record = record
        record.bytes_in += len(self.command.stdin)
        self._ends_at = self.live.clock.current_time() + self.command.timeout
        async with self._in_time():
            self._process = await self.live.driver.start(self.command)
            record.has_started()

    async def receive(self) -> OutputChunk | None:
        """Return the next output, or ``None`` when it has ended."""
        if self.exit is not None:
            return None
        async with self._in_time():
            chunk = await self.process.receive()
            if chunk is None:
                self._has_ended(await self.process.wait())
            else:
                self.record.bytes_out += len(chunk.data)
            return chunk
        raise AssertionError("unreachable")

    async def within(self, step: Callable[[], Awaitable[None]]) -> None:
        """Make another call to the process, under the same deadline."""
        async with self._in_time():
            await step()

    async def kill(self) -> bool:
        """End its whole tree, whatever cancels the caller; say whether that is confirmed."""
        if self.exit is not None or self._process is None:
            return True
        process = self._process
        self.record.killed = True
        confirmed = False

        async def step() -> None:
            nonlocal confirmed
            confirmed = await process.kill()
            self._has_ended(await process.wait())

        outcome = await run_to_the_end(step, grace=teardown_grace(), clock=self.live.clock)
        if confirmed and outcome.error is None:
            return True
        # The last resort: a sandbox whose command cannot be ended is ended as a whole.
        try:
            await self.live.end()
        except SandboxError:
            # That the end of the sandbox could not be recorded does not undo it.
            return self.live.state == "killed"
        return True

    def _has_ended(self, ended: ProcessExit) -> None:
        self.exit = ended
        self.record.has_ended(ended.exit_code)

    @asynccontextmanager
    async def _in_time(self) -> AsyncGenerator[None, None]:
        clock = self.live.clock
        left = self._ends_at - clock.current_time()
        if left <= 0:
            # Output that is there already is handed out without waiting, so no scope would notice.
            raise await self.timed_out()
        with clock.move_on_after(left) as scope:
            try:
                async with self.live.call("The command"):
                    yield
            except SandboxError as error:
                self.record.error = error
                raise
        if scope.cancelled_caught or self._ended_by_deadline:
            raise await self.timed_out()

    @property
    def _ended_by_deadline(self) -> bool:
        return self.exit is not None and self.exit.cause is ExitCause.TIMED_OUT

    async def timed_out(self) -> ExecutionTimeout:
        """Kill it and return the error that says so."""
        confirmed = await self.kill()
        how = "and was killed" if confirmed else "and could NOT be confirmed as killed"
        error = ExecutionTimeout(
            f"The command ran longer than {self.command.timeout:g} s {how}.",
            kill_confirmed=confirmed,
        )
        self.record.error = error
        return error

    async def collect(self, record: Record) -> ExecResult:
        """Run it to its end and return its whole output."""
        output = CollectedOutput(max_output_bytes())
        try:
            await self.start(record)
            while (chunk := await self.receive()) is not None:
                output.add(chunk)
                if output.exceeded:
                    raise await self._too_much(output)
        except ExecutionTimeout as error:
            await self._drain(output)
            error.stdout, error.stderr = output.text("stdout"), output.text("stderr")
            raise
        except BaseException:
            await self.kill()
            raise
        self.raise_for_cause(output.text("stdout"), output.text("stderr"))
        assert self.exit is not None
        return ExecResult(
            self.exit.exit_code, output.text("stdout"), output.text("stderr"), meter=self.meter
        )

    async def _too_much(self, output: CollectedOutput) -> OutputLimitExceeded:
        await self.kill()
        bound = max_output_bytes()
        return OutputLimitExceeded(
            f"The command wrote more than {bound} bytes and was killed.",
            limit="SBX_MAX_OUTPUT_MB",
            value=bound / (1024 * 1024),
            stdout=output.text("stdout"),
            stderr=output.text("stderr"),
        )

    async def _drain(self, output: CollectedOutput) -> None:
        """Take what had arrived before the kill."""
        if self._process is None or self.exit is None:
            return
        while not output.exceeded:
            chunk = await self._process.receive()
            if chunk is None:
                return
            self.record.bytes_out += len(chunk.data)
            output.add(chunk)

    def raise_for_cause(self, stdout: str = "", stderr: str = "") -> None:
        """Raise if a cap ended it."""
        error = self._error_of_cause(stdout, stderr)
        if error is not None:
            self.record.error = error
            raise error

    def _error_of_cause(self, stdout: str, stderr: str) -> SandboxError | None:
        if self.exit is None:
            return None
        policy = self.live.driver.policy

        def value(cap: AppliedCap | None) -> float | None:
            return None if cap is None else cap.value

        if self.exit.cause is ExitCause.OUT_OF_MEMORY:
            return OutOfMemory(
                "The command was killed because the sandbox's memory was used up.",
                limit="memory_mb",
                value=value(policy.memory_mb),
                stdout=stdout,
                stderr=stderr,
            )
        if self.exit.cause is ExitCause.PROCESS_LIMIT:
            return ProcessLimitExceeded(
                f"The command failed (status {self.exit.exit_code}) after the sandbox's limit of "
                "processes had refused one.",
                limit="processes",
                value=value(policy.processes),
                stdout=stdout,
                stderr=stderr,
            )
        if self.exit.cause is ExitCause.DISK_FULL:
            return DiskFull(
                f"The command failed (status {self.exit.exit_code}) and left the sandbox's disk full.",
                limit="disk_mb",
                value=value(policy.disk_mb),
                stdout=stdout,
                stderr=stderr,
            )
        return None
