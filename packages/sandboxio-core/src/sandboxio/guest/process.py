"""A command in a guest, as the host sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal

import anyio

from ..errors import SandboxGone
from ..models import OutputChunk
from ..spi import ExitCause, ProcessExit
from . import program as wire
from .channel import GuestChannel, Operation
from .fields import decode_fields, number
from .framing import SMALL_PAYLOAD

__all__ = ["GuestProcess"]

OUTPUT_WINDOW = 1 << 20
"""Bytes of output that one command may have under way and unread; bounds the host's memory."""

MAX_SEGMENTS = 1024
"""Pieces of unread output kept apart; beyond it a small piece joins the last one of its stream."""

MAX_STDIN_PIECE = 1 << 18
"""Bytes of stdin in one frame, so that other frames get between."""

Stream = Literal["stdout", "stderr"]


class GuestProcess(Operation):
    """A `ProcessDriver` over a guest channel."""

    def __init__(
        self,
        channel: GuestChannel,
        classify: Callable[[int], ExitCause],
        stdin: bytes,
        keep_stdin_open: bool,
    ) -> None:
        super().__init__()
        self._stdin = memoryview(stdin)
        self._sending = anyio.Lock()
        self._stdin_open = keep_stdin_open
        # Without any stdin the guest gives the command an empty one from the start.
        self._eof_sent = not stdin and not keep_stdin_open
        self._channel = channel
        self._classify = classify
        self._segments: deque[tuple[Stream, bytes | bytearray]] = deque()
        self._last: dict[Stream, bytearray] = {}
        self._granted = OUTPUT_WINDOW
        self._consumed = 0
        self._stdin_credit = wire.WINDOW
        self._started = False
        self.runs = False
        self._exit: ProcessExit | None = None
        self._empty = False

    def on_frame(self, kind: int, payload: bytes) -> bool:
        """Take a frame of this command in."""
        if kind == wire.OUT or kind == wire.ERR:
            if not payload or len(payload) > self._granted:
                return False
            self._granted -= len(payload)
            self._keep("stdout" if kind == wire.OUT else "stderr", payload)
            self.runs = True
            return True
        if kind == wire.CREDIT:
            n = number(decode_fields(payload), b"n")
            self._stdin_credit += n
            if n <= 0 or self._stdin_credit > wire.WINDOW:
                return False
            self.feed()
            return True
        if kind == wire.STARTED and not self._started:
            number(decode_fields(payload), b"pid")
            self._started = self.runs = True
            return True
        if kind == wire.FAIL and self.runs:
            return False
        if kind == wire.EXIT:
            self._on_exit(payload)
            return True
        return super().on_frame(kind, payload)

    def _keep(self, stream: Stream, payload: bytes) -> None:
        if len(payload) > SMALL_PAYLOAD:
            self._last.pop(stream, None)
            self._segments.append((stream, payload))
            return
        last = self._last.get(stream)
        if last is not None and (
            self._segments[-1][1] is last or len(self._segments) >= MAX_SEGMENTS
        ):
            last += payload
            return
        data = bytearray(payload)
        self._last[stream] = data
        self._segments.append((stream, data))

    def _on_exit(self, payload: bytes) -> None:
        fields = decode_fields(payload)
        status = number(fields, b"status", 0, 0xFFFF)
        # As `waitpid` encodes it: the signal in the low bits, else the exit code above them.
        code = 128 + (status & 0x7F) if status & 0x7F else status >> 8
        killed = number(fields, b"killed") != 0
        if number(fields, b"deadline"):
            cause = ExitCause.TIMED_OUT
        elif killed:
            cause = ExitCause.KILLED
        else:
            cause = self._classify(code)
            if cause is ExitCause.EXITED and number(fields, b"full"):
                cause = ExitCause.DISK_FULL
        self._empty = number(fields, b"empty") != 0
        self._exit = ProcessExit(code, cause)
        self.ended = True

    async def receive(self) -> OutputChunk | None:
        """Return the next output, or ``None`` at the end of all of it."""
        await self._channel.wait_until(self, lambda: bool(self._segments) or self.ended)
        if not self._segments:
            return None
        stream, data = self._segments.popleft()
        if self._last.get(stream) is data:
            del self._last[stream]
        self._consumed += len(data)
        if self._consumed >= OUTPUT_WINDOW // 2 and not self.ended:
            self._channel.post(wire.CREDIT, self.ident, {"n": self._consumed})
            self._granted += self._consumed
            self._consumed = 0
            self._channel.send_some()
        return OutputChunk(stream, bytes(data))

    async def wait(self) -> ProcessExit:
        """Return how it ended."""
        await self._channel.wait_until(self, lambda: self.ended)
        if self._exit is None:
            raise SandboxGone("The command ended without a status.")
        return self._exit

    def feed(self) -> None:
        """Queue as much stdin as was credited; called again whenever more is."""
        while self._stdin and self._stdin_credit > 0:
            piece = self._stdin[: min(self._stdin_credit, MAX_STDIN_PIECE)]
            self._channel.post(wire.STDIN, self.ident, piece)
            self._stdin_credit -= len(piece)
            self._stdin = self._stdin[len(piece) :]
        if not self._stdin and not self._stdin_open and not self._eof_sent:
            self._eof_sent = True
            self._channel.post(wire.STDIN_EOF, self.ident)

    async def send(self, data: bytes) -> None:
        """Write to stdin, within what the guest has credited."""
        async with self._sending:
            await self._fed()
            self._stdin = memoryview(data)
            try:
                await self._fed()
            finally:
                self._stdin = memoryview(b"")

    async def _fed(self) -> None:
        self.feed()
        await self._channel.flush()
        await self._channel.wait_until(self, lambda: not self._stdin or self.ended)
        await self._channel.flush()

    async def send_eof(self) -> None:
        """Close stdin."""
        async with self._sending:
            if self._stdin_open and not self.ended:
                await self._fed()
                self._stdin_open = False
                self.feed()
                await self._channel.flush()

    async def signal(self, signum: int) -> None:
        """Signal the process group."""
        await self._tell(wire.SIGNAL, {"signum": signum})

    async def kill(self) -> bool:
        """Kill the whole tree."""
        if not self.ended:
            await self._tell(wire.KILL)
            await self._channel.wait_until(self, lambda: self.ended)
            return self._empty
        return True

    async def aclose(self) -> None:
        """Nothing is held for it once it has ended."""

    async def _tell(self, kind: int, payload: object = b"") -> None:
        if not self.ended:
            self._channel.post(kind, self.ident, payload)
            await self._channel.flush()
