"""Streams: output while the command runs, and the end of a command that nobody waits for."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from sandboxio.errors import PathNotFound
from sandboxio.models import PIPE, Capability
from sandboxio.protocols import AsyncSandbox, Process

from ._attempts import attempt
from ._base import ContractBase, Names
from ._bounds import SHORT
from ._clause_mark import clause, needs
from ._pulse import Pulse

__all__ = ["StreamingContract"]

FLOOD = 128
"""MiB that no window, pipe or socket on the way has room for."""


async def rest_of(process: Process, stream: str = "stdout") -> bytes:
    """Read a stream to its end."""
    data = b""
    async for chunk in process:
        if chunk.stream == stream:
            data += chunk.data
    return data


@needs(Capability.STREAMING)
class StreamingContract(ContractBase):
    """`stream()`, and the `Process` that it returns."""

    @asynccontextmanager
    async def family(
        self, sandbox: AsyncSandbox, paths: list[str], pulse: Pulse
    ) -> AsyncGenerator[Process, None]:
        """Enter the stream of a family of heartbeats, once all of them beat."""
        async with sandbox.stream(self.probes.beat_as_a_family(*paths)) as process:
            await pulse.begun(*paths)
            yield process

    # ----- output

    @clause("stream.not-awaitable")
    async def test_stream_is_no_coroutine_and_starts_nothing(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, a forgotten `async with` leaks a command instead of failing at once."""
        path = name("file")
        process = sandbox.stream(self.probes.write_file(path, "started"))
        assert not inspect.isawaitable(process)
        await pulse.rest(0.2)
        assert await pulse.beats(path) == 0
        async with process:
            await process.wait()
        assert await pulse.beats(path) == 7

    @clause("stream.surroundings")
    async def test_stream_has_its_surroundings(self, sandbox: AsyncSandbox, name: Names) -> None:
        """If this fails, `stream()` drops an argument that `run()` heeds."""
        folder = name("folder")
        await sandbox.run(self.probes.make_many(folder, 1))
        async with sandbox.stream(
            self.probes.show_environment(), env={"SBX_ONE": "of the stream"}
        ) as process:
            assert b"SBX_ONE=of the stream" in (await rest_of(process)).split(b"\0")
        async with sandbox.stream(self.probes.show_directory(), cwd=folder) as process:
            assert (await rest_of(process)).rstrip().endswith(f"/{folder}".encode())
        with pytest.raises(PathNotFound):
            async with sandbox.stream(self.probes.exit(0), cwd=name("missing")):
                pass
        async with sandbox.stream(self.probes.count_stdin()) as process:
            assert (await rest_of(process)).strip() == b"0"
        if Capability.STDIN in sandbox.capabilities:
            async with sandbox.stream(self.probes.copy_stdin(), stdin=b"in\0\xff") as process:
                assert await rest_of(process) == b"in\0\xff"

    @clause("stream.while-running")
    async def test_output_arrives_while_the_command_runs(
        self, sandbox: AsyncSandbox, name: Names
    ) -> None:
        """If this fails, output is held back until the command has ended.

        The command goes on only when its first output has been seen.
        """
        go = name("go")
        async with sandbox.stream(self.probes.say_around(b"first", go, b"last")) as process:
            first = b""
            while first != b"first":
                first += (await anext(aiter(process))).data
            await sandbox.run(self.probes.write_file(go, ""))
            assert await rest_of(process) == b"last"

    @clause("stream.whole")
    async def test_chunks_together_are_what_was_written(self, sandbox: AsyncSandbox) -> None:
        """If this fails, output is lost, cut, or comes twice."""
        numbers = "".join(f"{number}\n" for number in range(1, 100_001)).encode()
        async with sandbox.stream(self.probes.count_up(100_000)) as process:
            assert await rest_of(process) == numbers

    @clause("stream.tells-streams")
    async def test_chunk_tells_its_stream(self, sandbox: AsyncSandbox) -> None:
        """If this fails, stdout and stderr are one, or have their names mixed up."""
        seen = {"stdout": b"", "stderr": b""}
        async with sandbox.stream(self.probes.say(b"out\0\xff", b"err")) as process:
            async for chunk in process:
                seen[chunk.stream] += chunk.data
        assert seen == {"stdout": b"out\0\xff", "stderr": b"err"}

    @clause("stream.returncode")
    async def test_returncode_is_none_while_it_runs(
        self, sandbox: AsyncSandbox, name: Names
    ) -> None:
        """If this fails, `returncode` is made up, or not kept."""
        go = name("go")
        async with sandbox.stream(self.probes.say_around(b"now", go, b"")) as process:
            await anext(aiter(process))
            codes = [process.returncode]
            await sandbox.run(self.probes.write_file(go, ""))
            await process.wait()
            codes.append(process.returncode)
        assert [*codes, process.returncode] == [None, 0, 0]

    @clause("stream.wait")
    async def test_wait_returns_a_streamed_result(self, sandbox: AsyncSandbox) -> None:
        """If this fails, output is buffered a second time, or the result does not say so."""
        async with sandbox.stream(self.probes.say(b"out", b"err", 3)) as process:
            assert await rest_of(process) == b"out"
            result = await process.wait()
        assert (result.exit_code, result.stdout, result.stderr) == (3, "", "")
        assert result.streamed is True

    @clause("stream.wait-again")
    async def test_wait_may_be_called_again(self, sandbox: AsyncSandbox) -> None:
        """If this fails, `wait()` consumes what it returns."""
        async with sandbox.stream(self.probes.exit(3)) as process:
            codes = [(await process.wait()).exit_code for _ in range(3)]
        assert codes == [3, 3, 3]

    @clause("stream.wait-discards")
    async def test_wait_discards_unread_output(self, sandbox: AsyncSandbox) -> None:
        """If this fails, `wait()` waits for a command that waits for its reader."""
        command = self.probes.flood_both(2_000_000, b"\nlast", 3)
        async with sandbox.stream(command) as process:
            result = await process.wait()
        assert (result.exit_code, result.stdout, result.stderr) == (3, "", "")

    @clause("stream.back-pressure")
    async def test_unread_output_holds_the_command_up(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, output is read ahead without a bound, and fills this host's memory."""
        taken = name("taken")
        async with sandbox.stream(self.probes.flood_in_steps(FLOOD, taken)) as process:
            await pulse.begun(taken)
            last = -1
            while (steps := await pulse.beats(taken)) > last:
                last = steps
                await pulse.rest(SHORT)
            assert last <= FLOOD, f"{FLOOD} MiB were taken although nobody read them"
            size = 0
            async for chunk in process:
                size += len(chunk.data)
            assert size == FLOOD << 20
            assert (await process.wait()).exit_code == 0
        assert await pulse.beats(taken) == FLOOD + 1

    # ----- the end

    @clause("stream.ended")
    async def test_nothing_is_left_after_the_end(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, the end of the output is taken for the end of the command."""
        go = name("go")
        async with sandbox.stream(self.probes.say_around(b"now", go, b"")) as process:
            await anext(aiter(process))
            await sandbox.run(self.probes.write_file(go, ""))
            assert await rest_of(process) == b""
        await pulse.has_no_process(go)

    @clause("stream.left")
    async def test_leaving_the_block_ends_the_command(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, the command, or what it started, runs on with nobody to stop it."""
        paths = [name("main"), name("child"), name("grandchild")]
        async with self.family(sandbox, paths, pulse):
            pass
        await pulse.is_dead(*paths)

    @clause("stream.error")
    async def test_exception_in_the_block_ends_the_command(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, teardown is skipped on an error, or replaces it."""
        paths = [name("main"), name("child"), name("grandchild")]
        mine = ValueError("of the block")

        async def block() -> None:
            async with self.family(sandbox, paths, pulse):
                raise mine

        assert await attempt(block()) is mine
        await pulse.is_dead(*paths)

    @clause("stream.cancelled")
    async def test_cancellation_in_the_block_ends_the_command(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, the kill is cancelled with the block; it has to be shielded."""
        paths = [name("main"), name("child"), name("grandchild")]
        with anyio.CancelScope() as scope:
            async with self.family(sandbox, paths, pulse) as process:
                scope.cancel()
                async for _ in process:
                    pass
        assert scope.cancelled_caught
        await pulse.is_dead(*paths)

    @clause("stream.kill")
    async def test_kill_ends_the_command(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, `Process.kill()` sends a signal and does not see to its effect."""
        paths = [name("main"), name("child"), name("grandchild")]
        async with self.family(sandbox, paths, pulse) as process:
            await process.kill()
            await pulse.is_dead(*paths)
            await process.kill()
            assert process.returncode is not None

    @clause("stream.siblings")
    async def test_leaving_early_leaves_the_rest_alone(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, ending one command ends others, or restarts the sandbox."""
        daemon, paths = name("daemon"), [name("main"), name("child"), name("grandchild")]
        await sandbox.run(self.probes.leave_a_daemon(daemon))
        async with sandbox.stream(self.probes.beat(name("sibling"))):
            await pulse.begun(daemon, name("sibling"))
            async with self.family(sandbox, paths, pulse):
                pass
            await pulse.lives(daemon)
            await pulse.lives(name("sibling"))

    @clause("stream.other-task")
    async def test_stream_is_read_and_left_in_other_tasks(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, a stream keeps a task group or a cancel scope open between calls."""
        path = name("beat")
        process = sandbox.stream(self.probes.say_and_beat(b"now", b"", path))
        seen: list[bytes] = []

        async def enter() -> None:
            await process.__aenter__()

        async def read() -> None:
            seen.append((await anext(aiter(process))).data)
            await pulse.begun(path)

        async def leave() -> None:
            await process.__aexit__(None, None, None)

        for step in (enter, read, leave):
            async with anyio.create_task_group() as group:
                group.start_soon(step)
        assert seen == [b"now"]
        await pulse.is_dead(path)

    # ----- stdin

    @needs(Capability.STDIN)
    @clause("stream.send")
    async def test_send_writes_while_the_command_runs(self, sandbox: AsyncSandbox) -> None:
        """If this fails, stdin is only written at the start, or not closed by `send_eof()`.

        Each piece is sent when the one before has come back.
        """
        async with sandbox.stream(self.probes.copy_stdin(), stdin=PIPE) as process:
            for piece in (b"one", b"\0two\xff", b"three"):
                await process.send(piece)
                echo = b""
                while len(echo) < len(piece):
                    echo += (await anext(aiter(process))).data
                assert echo == piece
            await process.send_eof()
            await process.send_eof()
            assert await rest_of(process) == b""
            assert (await process.wait()).exit_code == 0

    @needs(Capability.STDIN)
    @clause("stream.signal")
    async def test_signal_reaches_the_command(self, sandbox: AsyncSandbox) -> None:
        """If this fails, a signal goes to a wrapper of the adapter's, or nowhere."""
        command = self.probes.answer_signal(15, b"ready", 42)
        async with sandbox.stream(command) as process:
            await anext(aiter(process))
            await process.signal(15)
            assert (await process.wait()).exit_code == 42
        with pytest.raises(StopAsyncIteration):
            await anext(aiter(process))
