"""One command from its start to its end, under one deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

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

DRAIN_BOUND = 1.0
"""Seconds to take what a command that has ended had written; it is there, or it never comes."""

T = TypeVar("T")


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
        self._drained = False
        self._killing: anyio.Event | None = None
        self._confirmed = True
        self._late: ExecutionTimeout | None = None
        self._output: CollectedOutput | None = None

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

        async def step() -> None:
            self._process = await self.live.driver.start(self.command)
            record.has_started()

        await self.within(step)

    async def receive(self) -> OutputChunk | None:
        """Return the next output, or ``None`` when it has ended and all of it was returned."""
        if self._drained:
            return None
        chunk = await self.within(self._receive)
        if self._ended_by_deadline:
            raise await self.timed_out()
        return chunk

    async def _receive(self) -> OutputChunk | None:
        chunk = await self.process.receive()
        if chunk is not None:
            self.record.bytes_out += len(chunk.data)
            return chunk
        if self.exit is None:
            self._has_ended(await self.process.wait())
        self._drained = True
        return None

    async def within(self, step: Callable[[], Awaitable[T]]) -> T:
        """Make a call to the driver, under the command's deadline."""
        if self._late is not None:
            raise self._late
        clock = self.live.clock
        left = self._ends_at - clock.current_time()
        if self.exit is None and left <= 0:
            # Output that is there already is handed out without waiting, so no scope would notice.
            await self.kill()
            if not self._ended_by_itself:
                raise await self.timed_out()
        with clock.move_on_after(left if self.exit is None else DRAIN_BOUND):
            try:
                async with self.live.call("The command"):
                    return await step()
            except SandboxError as error:
                self.record.error = error
                raise
        raise await self.timed_out()

    async def kill(self) -> bool:
        """End its whole tree, whatever cancels the caller; say whether that is confirmed.

        The last resort: a sandbox whose command cannot be ended is ended as a whole.
        """
        if self._killing is not None:
            await self._killing.wait()  # another task kills it, within the same bound
        if self._process is None or self.exit is not None or self._killing is not None:
            return self._confirmed
        process, grace = self._process, teardown_grace()
        self._killing, self._confirmed = anyio.Event(), False

        async def step() -> None:
            with self.live.clock.move_on_after(grace):
                try:
                    if await process.kill():
                        self._has_ended(await process.wait())
                        self._confirmed = True
                except Exception:  # noqa: BLE001, S110 - whatever the driver raises: not confirmed
                    pass
            if not self._confirmed:
                try:
                    await self.live.end()
                finally:
                    # That the end of the sandbox could not be recorded does not undo it.
                    self._confirmed = self.live.state != "running"

        try:
            # All of it in one: a caller that was cancelled would not come to a second step.
            await run_to_the_end(step, grace=2 * grace + DRAIN_BOUND, clock=self.live.clock)
        finally:
            self._killing.set()
            self.record.killed = not self._ended_by_itself
        return self._confirmed

    async def release(self) -> None:
        """Let the driver release what it holds for the process; nothing is received after it."""
        process, self._process = self._process, None
        self._drained = True
        if process is not None:
            await run_to_the_end(process.aclose, grace=teardown_grace(), clock=self.live.clock)

    def _has_ended(self, ended: ProcessExit) -> None:
        self.exit = ended
        self.record.has_ended(ended.exit_code)

    @property
    def _ended_by_deadline(self) -> bool:
        return self.exit is not None and self.exit.cause is ExitCause.TIMED_OUT

    @property
    def _ended_by_itself(self) -> bool:
        return self.exit is not None and self.exit.cause not in (
            ExitCause.TIMED_OUT,
            ExitCause.KILLED,
        )

    async def timed_out(self) -> ExecutionTimeout:
        """Kill it and return the error that says so, with the output that was not handed out."""
        confirmed = await self.kill()
        how = "and was killed" if confirmed else "and could NOT be confirmed as killed"
        output = self._output or CollectedOutput(max_output_bytes())
        await self._drain(output)
        error = ExecutionTimeout(
            f"The command ran longer than {self.command.timeout:g} s {how}.",
            stdout=output.text("stdout"),
            stderr=output.text("stderr"),
            kill_confirmed=confirmed,
        )
        self._late = self.record.error = error
        return error

    async def collect(self, record: Record) -> ExecResult:
        """Run it to its end and return its whole output."""
        output = self._output = CollectedOutput(max_output_bytes())
        try:
            await self.start(record)
            while (chunk := await self.receive()) is not None:
                output.add(chunk)
                if output.exceeded:
                    raise await self._too_much(output)
        except BaseException:
            await self.kill()
            raise
        finally:
            await self.release()
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
        """Take what had arrived before the kill, if it can still be had."""
        process = self._process
        with self.live.clock.move_on_after(DRAIN_BOUND):
            try:
                while process is not None and not self._drained and not output.exceeded:
                    chunk = await process.receive()
                    if chunk is None:
                        break
                    self.record.bytes_out += len(chunk.data)
                    output.add(chunk)
            except Exception:  # noqa: BLE001 - the deadline is what is to be told
                return

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
