"""A command of a fake sandbox as the engine drives it."""

from __future__ import annotations

from anyio.lowlevel import checkpoint

from sandboxio.errors import SandboxGone
from sandboxio.models import OutputChunk
from sandboxio.spi import ExitCause, ProcessExit

from .clock import FIRST, Timer, VirtualClock
from .handles import HostInput, HostOutput
from .machine import Machine
from .process import Proc

__all__ = ["FakeProcess"]

BACKSTOP = 1.0
"""Seconds after the deadline at which the far side kills a command whose consumer is idle; the same
as a guest's."""


class FakeProcess:
    """A `ProcessDriver`."""

    def __init__(
        self,
        clock: VirtualClock,
        machine: Machine,
        proc: Proc,
        stdin: HostInput,
        output: HostOutput,
        timeout: float,
    ) -> None:
        self._clock = clock
        self._machine = machine
        self._stdin = stdin
        self._killed = False
        self._timed_out = False
        self.proc = proc
        self.output = output
        self.lost = False
        self._timer: Timer = clock.at(
            clock.current_time() + timeout + BACKSTOP, self._on_deadline, order=FIRST
        )

    @property
    def ended(self) -> bool:
        """Whether the command itself has ended."""
        return self.proc.status is not None

    def _on_deadline(self) -> None:
        if not self.ended:
            self._timed_out = True
            self._kill()

    def lose(self) -> None:
        """The sandbox ends, and the command with it."""
        self.lost = not self.ended
        self._timer.cancel()

    async def receive(self) -> OutputChunk | None:
        """Return the next output, or ``None`` at the end of all of it."""
        with self._clock.call():
            await self._clock.wait_until(lambda: self.output.waiting or self.ended or self.lost)
            with self._clock.lock:
                piece = self.output.take()
                if piece is not None:
                    self._machine.run()
                    return OutputChunk(*piece)
                self._check_lost()
                self.output.detach()
                self._timer.cancel()
                return None

    def _check_lost(self) -> None:
        if self.lost:
            raise SandboxGone("The sandbox ended while the command ran.")

    async def wait(self) -> ProcessExit:
        """Return how it ended."""
        with self._clock.call():
            await self._clock.wait_until(lambda: self.ended or self.lost)
            self._check_lost()
            return ProcessExit(self.proc.status or 0, self.cause)

    @property
    def cause(self) -> ExitCause:
        """Why it ended, by the word of the machine."""
        if self._timed_out:
            return ExitCause.TIMED_OUT
        if self._killed:
            return ExitCause.KILLED
        family = self.proc.family
        if not self.proc.status:
            return ExitCause.EXITED
        if family.out_of_memory:
            return ExitCause.OUT_OF_MEMORY
        if family.too_many_processes:
            return ExitCause.PROCESS_LIMIT
        return ExitCause.DISK_FULL if family.disk_full else ExitCause.EXITED

    async def send(self, data: bytes) -> None:
        """Write to stdin as fast as it is read."""
        with self._clock.call():
            while data:
                await self._clock.wait_until(lambda: self._stdin.has_room() or self.ended)
                with self._clock.lock:
                    self._stdin.send(data[:65536])
                    data = data[65536:]
                    self._machine.run()

    async def send_eof(self) -> None:
        """Close stdin."""
        with self._clock.call():
            await checkpoint()
            with self._clock.lock:
                self._stdin.end()
                self._machine.run()

    async def signal(self, signum: int) -> None:
        """Signal the process group."""
        with self._clock.call():
            await checkpoint()
            with self._clock.lock:
                if not self.ended:
                    self._machine.kernel.signal_group(self.proc.group, signum)
                    self._machine.run()

    async def kill(self) -> bool:
        """Kill the whole tree; nothing if the command has ended by itself."""
        with self._clock.call(), self._clock.lock:
            if not self.ended:
                self._killed = True
                self._kill()
            return True

    def _kill(self) -> None:
        self._machine.kernel.kill_family(self.proc.family)
        self._timer.cancel()
        self._machine.run()

    async def aclose(self) -> None:
        """Nothing is held for it."""
