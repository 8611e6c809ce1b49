"""A command in a container without a guest."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal

import anyio

from sandboxio.errors import ProcessLimitExceeded, ProviderError, SandboxUnreachable
from sandboxio.models import OutputChunk
from sandboxio.spi import Command, ExitCause, ProcessExit, file_error

from ._transport import FrameReader

if TYPE_CHECKING:
    from ._exec_host import ExecHost

__all__ = ["ExecProcess", "no_process"]

LAST_WORDS = 1.0
"""Seconds for the shell of a killed command to say that it has ended."""

DECIDED_BOUND = 5.0
"""Seconds for the engine to tell of a shell that it has ended, when its output has."""

MAX_PREAMBLE = 1 << 16
"""Bytes before a command says that it starts; only an engine that complains says anything else."""

MAX_EARLY = 1 << 24
"""Bytes of the command's stdout that may overtake the word on stderr that it starts: the engine reads
the two apart from each other."""

SIGNALLED = 128
"""Exit codes above are of what a signal has ended."""

KILLED = SIGNALLED + 9
"""Exit code of what was killed."""

LATE = 99
"""Exit code of what watches over a command's deadline, when it had to end it."""

SEPARATOR = "\x1e"
"""Stands on both sides of a mark in the output, and nowhere else."""

READER_POLL = 0.02
"""Seconds between two looks whether another task has read the rest of the output."""

Stream = Literal["stdout", "stderr"]


class ExecProcess:
    """A `ProcessDriver` of an exec. Its shell marks where the command's own output ends."""

    def __init__(
        self, host: ExecHost, ident: str, mark: str, reader: FrameReader, command: Command
    ) -> None:
        self._host = host
        self._ident = ident
        self._name = mark
        self._mark = f"{SEPARATOR}{mark}{SEPARATOR}".encode()
        self._reader = reader
        self._unsent = memoryview(command.stdin)
        self._stdin_open = command.keep_stdin_open
        self._eof_sent = not command.stdin and not command.keep_stdin_open
        self._input_gone = False
        self._leader = 0
        self._chunks: deque[OutputChunk] = deque()
        self._held: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._done: set[Stream] = set()
        self._over = False
        self._cut = False
        """Whether its output ended without its marks."""
        self._reading = False
        self._exit: ProcessExit | None = None
        self._killed = False

    async def started(self, cwd: str) -> None:
        """Wait until the shell says that the command starts.

        Raises:
            FileSystemError: The directory does not exist, or is none.
            ProcessLimitExceeded: The container may not have another process.
        """
        said = bytearray()
        while True:
            pieces = await self._receive_frames()
            for stream, piece in pieces:
                if stream == "stderr":
                    self._held["stderr"] += piece
                else:
                    said += piece
            held = self._held["stderr"]
            line, newline, rest = held.partition(self._mark + b" ")[2].partition(b"\n")
            if newline:
                held[:] = rest
                if line.startswith(b"errno "):
                    raise file_error(int(line[6:]), cwd)
                if line == b"unforked":
                    raise no_process()
                self._leader = int(line)
                self._held["stdout"] += said
                self._sort()
                return
            if not pieces or len(held) > MAX_PREAMBLE or len(said) > MAX_EARLY:
                raise self._not_started(bytes(said + held))

    def _not_started(self, said: bytes) -> ProviderError | ProcessLimitExceeded:
        text = said.decode("utf-8", "replace").strip()[:500]
        if "resource temporarily unavailable" in text.lower():
            return no_process()
        return ProviderError(
            f"The Docker Engine could not start the command: {text or 'it said nothing'}"
        )

    async def receive(self) -> OutputChunk | None:
        """Return the next output of the command itself."""
        while not self._chunks:
            if self._over:
                return None
            await self._take()
        return self._chunks.popleft()

    async def _take(self) -> None:
        self._reading = True
        try:
            pieces = await self._exchange()
        finally:
            self._reading = False
        for stream, piece in pieces:
            self._held["stdout" if stream == "stdout" else "stderr"] += piece
        self._sort(final=not pieces)
        if not pieces:
            self._cut = True
            self._end()

    async def _exchange(self) -> list[tuple[str, memoryview]]:
        """Wait for output, and hand over stdin meanwhile."""
        if self._eof_sent or (self._stdin_open and not self._unsent):
            return await self._receive_frames()
        pieces: list[tuple[str, memoryview]] = []
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._send_rest)
            try:
                pieces = await self._receive_frames()
            except Exception as error:  # noqa: BLE001 - raised below, outside of the group
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return pieces

    async def _receive_frames(self) -> list[tuple[str, memoryview]]:
        try:
            return await self._reader.receive()
        except OSError:
            return []

    async def _send_rest(self) -> None:
        transport = self._reader.transport
        try:
            while self._unsent:
                self._unsent = self._unsent[transport.send_nowait(self._unsent) :]
                if self._unsent:
                    await self._reader.wait_sendable()
        except OSError:
            self._unsent = memoryview(b"")  # it closed its stdin; what it did not want is dropped
            self._input_gone = True
        if not self._stdin_open and not self._eof_sent:
            self._eof_sent = True
            self._reader.end_input()

    def _sort(self, *, final: bool = False) -> None:
        """Hand out what is surely the command's, and see the marks that say that it has ended."""
        streams: tuple[Stream, Stream] = ("stdout", "stderr")
        for stream in streams:
            held = self._held[stream]
            if stream in self._done:
                held.clear()
                continue
            at = held.find(self._mark)
            if at >= 0 and (stream == "stdout" or b"\n" in held[at:]):
                if stream == "stderr":
                    self._on_end(bytes(held[at + len(self._mark) :].partition(b"\n")[0]))
                self._done.add(stream)
                del held[at:]
                keep = 0
            else:
                keep = 0 if final else begun(held, self._mark) if at < 0 else len(held) - at
            data = bytes(held[: len(held) - keep])
            del held[: len(held) - keep]
            if data:
                self._chunks.append(OutputChunk(stream, data))
        if len(self._done) == len(streams):
            self._end()

    def _end(self) -> None:
        self._over = True
        self.close()

    def _on_end(self, words: bytes) -> None:
        try:
            code, late = (int(word) for word in words.split())
        except ValueError:
            return  # not ours: the exec's own exit code will do
        cause = ExitCause.TIMED_OUT if late == LATE else ExitCause.EXITED
        self._exit = ProcessExit(code & 0xFF, cause)

    async def wait(self) -> ProcessExit:
        """Return how it ended."""
        if self._killed:
            return ProcessExit(KILLED, ExitCause.KILLED)
        if self._cut or self._exit is None:
            self._exit = self._exit or ProcessExit(await self._shells_exit_code())
        elif self._exit == ProcessExit(KILLED):
            # The shell outlived it for long enough to say so, which may not be long.
            await self._host.raise_if_it_ends()
        return self._exit

    async def _shells_exit_code(self) -> int:
        """Return it when there are no words of the shell about the command: it was killed.

        Raises:
            SandboxUnreachable: It was not: the connection to it broke.
            SandboxError: The container has ended.
        """
        code = await self._host.exit_code(self._ident, within=DECIDED_BOUND)
        if code is not None and (code > SIGNALLED or not self._cut):
            return code
        raise SandboxUnreachable(
            "The connection to the Docker Engine ended before the command's output did.",
            hint="Run it again if that does no harm: what it did is done.",
            retryable=False,
        )

    async def send(self, data: bytes) -> None:
        """Write to stdin."""
        if self._input_gone:
            return
        self._unsent = memoryview(data)
        try:
            await self._send_rest()
        finally:
            self._unsent = memoryview(b"")

    async def send_eof(self) -> None:
        """Close stdin."""
        self._stdin_open = False
        await self._send_rest()

    async def signal(self, signum: int) -> None:
        """Signal the process group."""
        if not self._over:
            await self._host.signal_group(self._leader, signum)

    async def kill(self) -> bool:
        """Kill the whole tree."""
        mark = self._name
        if self._cut and not self._killed:
            # That its output has ended does not say that it has.
            self._killed = await self._host.kill_tree(mark, self._leader)
            return self._killed
        if self._over or self._killed:
            return True
        if not await self._host.kill_tree(mark, self._leader, spare_leader=True):
            return False
        self._killed = True
        # Its shell lives and says where the output ends, unless code in the sandbox has stopped it.
        with anyio.move_on_after(LAST_WORDS):
            await self._read_to_the_end()
            return True
        gone = await self._host.kill_tree(mark, self._leader)
        if gone and not self._reading:
            self._end()
        return gone

    async def _read_to_the_end(self) -> None:
        while not self._over:
            if self._reading:
                await anyio.sleep(READER_POLL)  # another task does it
            else:
                await self._take()

    async def aclose(self) -> None:
        """Close its streams."""
        self.close()

    def close(self) -> None:
        """Close its streams."""
        self._reader.close()


def no_process() -> ProcessLimitExceeded:
    """Return the error of a container that may not have another process."""
    return ProcessLimitExceeded("The sandbox may not start another process.", limit="processes")


def begun(data: bytearray, mark: bytes) -> int:
    """Return how many bytes at the end of `data` may be the beginning of `mark`."""
    for length in range(min(len(mark) - 1, len(data)), 0, -1):
        if data.endswith(mark[:length]):
            return length
    return 0
