"""Deadlines and cancellation of commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from sandboxio.errors import ConfigurationError, ExecutionTimeout, SandboxError
from sandboxio.models import Capability
from sandboxio.protocols import AsyncSandbox, Backend

from ._attempts import attempt, interrupt
from ._base import ContractBase, Names
from ._bounds import BEATS, GRACE, SHORT
from ._clause_mark import clause, needs
from ._pulse import Pulse

__all__ = ["StoppingContract", "cancelled_when_it_beats", "timed_out_when_it_beat"]

BAD_TIMEOUTS: tuple[Any, ...] = (
    0,
    -1,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e12,
    True,
    "5",
    [5],
)

EARLY_WAITS = 6
"""Waits of a run in which it starts its command; later ones are all alike."""


async def cancelled_when_it_beats(
    call: Callable[[], Awaitable[object]], pulse: Pulse, *paths: str
) -> tuple[bool, BaseException | None]:
    """Make a call, cancel it when its heartbeats beat, and return what came of it.

    Returns whether the scope caught a cancellation, and what the call was seen to raise.
    """
    seen: BaseException | None = None

    async def watched() -> None:
        nonlocal seen
        try:
            await call()
        except BaseException as error:
            seen = error
            raise

    with anyio.CancelScope() as outer:
        async with anyio.create_task_group() as group:
            group.start_soon(watched)
            await pulse.begun(*paths)
            outer.cancel()
    return outer.cancelled_caught, seen


async def timed_out_when_it_beat(
    call: Callable[[float], Awaitable[object]], pulse: Pulse, *paths: str
) -> ExecutionTimeout:
    """Make a call with a deadline, and return its error; again if its heartbeats had not begun."""
    for seconds in BEATS:
        with pytest.raises(ExecutionTimeout) as caught:
            await call(seconds)
        if await pulse.have_begun(*paths):
            break
    return caught.value


class StoppingContract(ContractBase):
    """How a command is stopped, and what that leaves."""

    # ----- deadline

    @clause("timeout.raises")
    async def test_deadline_raises(self, sandbox: AsyncSandbox) -> None:
        """If this fails, the deadline is ignored, or raises another error, or comes too late."""
        began = anyio.current_time()
        with pytest.raises(ExecutionTimeout):
            await sandbox.run(self.probes.sleep(300), timeout=SHORT)
        assert anyio.current_time() - began < SHORT + GRACE

    @clause("timeout.partial-output")
    async def test_timeout_carries_partial_output(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, what had arrived is dropped with the command."""
        path = name("beat")
        command = self.probes.say_and_beat(b"half a line", b"and a warning", path)
        error = await timed_out_when_it_beat(
            lambda seconds: sandbox.run(command, timeout=seconds), pulse, path
        )
        assert (error.stdout, error.stderr) == ("half a line", "and a warning")

    @clause("timeout.tree")
    async def test_timeout_ends_the_whole_tree(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, only the command or its process group is killed.

        What left its session has another parent by now; a child subreaper, a control group or a
        process namespace finds it.
        """
        paths = [name("main"), name("child"), name("grandchild")]
        command = self.probes.beat_as_a_family(*paths)
        await timed_out_when_it_beat(
            lambda seconds: sandbox.run(command, timeout=seconds), pulse, *paths
        )
        await pulse.is_dead(*paths)

    @clause("timeout.stubborn")
    async def test_timeout_ends_what_ignores_signals(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, a polite signal is all that is sent."""
        path = name("beat")
        command = self.probes.beat_stubbornly(path)
        await timed_out_when_it_beat(
            lambda seconds: sandbox.run(command, timeout=seconds), pulse, path
        )
        await pulse.is_dead(path)

    @clause("timeout.confirmed")
    async def test_timeout_says_that_the_kill_was_confirmed(self, sandbox: AsyncSandbox) -> None:
        """If this fails, nobody looks whether what was killed is gone."""
        with pytest.raises(ExecutionTimeout) as caught:
            await sandbox.run(self.probes.sleep(300), timeout=SHORT)
        assert caught.value.kill_confirmed is True

    @clause("timeout.siblings")
    async def test_timeout_leaves_the_rest_alone(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, a timeout restarts the sandbox, or kills what it should not."""
        beat, file = name("beat"), name("file")
        await sandbox.run(self.probes.leave_a_daemon(beat))
        await sandbox.run(self.probes.write_file(file, "kept"))
        results: list[int] = []

        async def sibling() -> None:
            command = self.probes.say_around(b"", name("go"), b"")
            results.append((await sandbox.run(command)).exit_code)

        async with anyio.create_task_group() as group:
            group.start_soon(sibling)
            await pulse.begun(beat)
            with pytest.raises(ExecutionTimeout):
                await sandbox.run(self.probes.sleep(300), timeout=SHORT)
            await pulse.lives(beat)
            await sandbox.run(self.probes.write_file(name("go"), ""))
        assert results == [0]
        assert (await sandbox.run(self.probes.show_file(file))).stdout == "kept"

    @clause("timeout.not-guessed")
    @pytest.mark.parametrize("code", [124, 137, 143])
    async def test_exit_code_is_never_taken_for_a_timeout(
        self, sandbox: AsyncSandbox, code: int
    ) -> None:
        """If this fails, an exit code is read as a timeout or as a kill."""
        result = await sandbox.run(self.probes.exit(code), timeout=60)
        assert result.exit_code == code

    @clause("timeout.bad-value")
    @pytest.mark.parametrize("timeout", BAD_TIMEOUTS, ids=repr)
    async def test_bad_timeout_is_refused(self, sandbox: AsyncSandbox, timeout: Any) -> None:
        """If this fails, a call can be without a bound, or a wrong type raises a builtin."""
        with pytest.raises(ConfigurationError):
            await sandbox.run(self.probes.exit(0), timeout=timeout)
        if Capability.RUN_CODE in sandbox.capabilities:
            with pytest.raises(ConfigurationError):
                await sandbox.run_code("pass", timeout=timeout)
        if Capability.STREAMING in sandbox.capabilities:
            with pytest.raises(ConfigurationError):
                async with sandbox.stream(self.probes.exit(0), timeout=timeout):
                    pass

    @needs(Capability.STREAMING)
    @clause("timeout.stream")
    async def test_deadline_of_a_stream_raises(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, a stream has no deadline, or ends at it as if the command had ended."""
        path = name("beat")
        command = self.probes.say_and_beat(b"now", b"", path)

        async def consume(seconds: float) -> None:
            async with sandbox.stream(command, timeout=seconds) as process:
                async for chunk in process:
                    assert chunk.data == b"now"

        await timed_out_when_it_beat(consume, pulse, path)
        await pulse.is_dead(path)

    @needs(Capability.STREAMING)
    @clause("timeout.idle-consumer")
    async def test_deadline_holds_although_nobody_reads(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, the deadline is only looked at when output is asked for."""
        path = name("beat")
        async with sandbox.stream(self.probes.beat(path), timeout=2 * BEATS[0]) as process:
            await pulse.begun(path)
            last = -1
            while (beats := await pulse.beats(path)) > last:
                last = beats
                await pulse.rest(SHORT)
            await pulse.is_dead(path)
            with pytest.raises(ExecutionTimeout):
                await process.wait()

    @clause("timeout.callers-own")
    async def test_callers_own_deadline_stays_a_builtin_timeout(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, the caller's deadline is taken for the command's, or leaves processes."""
        path = name("beat")
        for seconds in BEATS:
            error = await attempt(self._within(seconds, sandbox, path))
            assert type(error) is TimeoutError, repr(error)
            if await pulse.have_begun(path):
                break
        await pulse.is_dead(path)

    async def _within(self, seconds: float, sandbox: AsyncSandbox, path: str) -> None:
        with anyio.fail_after(seconds):
            await sandbox.run(self.probes.beat(path))

    # ----- cancellation

    @clause("cancel.run")
    async def test_cancelled_run_leaves_no_process(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, the kill of a cancelled run is cancelled with it."""
        paths = [name("main"), name("child"), name("grandchild")]
        await cancelled_when_it_beats(
            lambda: sandbox.run(self.probes.beat_as_a_family(*paths)), pulse, *paths
        )
        await pulse.is_dead(*paths)

    @clause("cancel.early")
    async def test_run_cancelled_while_it_starts_leaves_no_process(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, a start that is cancelled is forgotten before its command is."""
        for at in range(1, EARLY_WAITS + 1):
            path = name(f"beat{at}")
            with anyio.move_on_after(SHORT):  # a silent command may never wait for that often
                cut = await interrupt(partial(sandbox.run, self.probes.beat(path)), at)
                assert cut.cancelled, f"cancelled at wait {at}, it came to {cut}"
            before = await pulse.beats(path)
            await pulse.rest(0.2)
            assert await pulse.beats(path) == before, f"cancelled at wait {at}, it still lives"

    @needs(Capability.RUN_CODE)
    @clause("cancel.code")
    async def test_cancelled_code_leaves_no_process(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, code is run in another way than commands, and not killed like them."""
        path = name("beat")
        await cancelled_when_it_beats(lambda: sandbox.run_code(beating_code(path)), pulse, path)
        await pulse.is_dead(path)

    @clause("cancel.identity")
    async def test_cancellation_comes_out_as_cancellation(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, look for `except BaseException` or a broad `except Exception`."""
        path = name("beat")
        caught, seen = await cancelled_when_it_beats(
            lambda: sandbox.run(self.probes.beat(path)), pulse, path
        )
        assert isinstance(seen, anyio.get_cancelled_exc_class()), repr(seen)
        assert not isinstance(seen, SandboxError)
        assert caught

    @clause("cancel.siblings")
    async def test_cancellation_leaves_the_rest_alone(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, a cancellation restarts the sandbox, or kills what it should not."""
        daemon, path = name("daemon"), name("beat")
        await sandbox.run(self.probes.leave_a_daemon(daemon))
        await pulse.begun(daemon)
        await cancelled_when_it_beats(lambda: sandbox.run(self.probes.beat(path)), pulse, path)
        await pulse.lives(daemon)
        assert (await sandbox.run(self.probes.exit(3))).exit_code == 3

    # ----- the backend

    @clause("concurrency.other-task")
    async def test_sandbox_is_used_and_ended_in_other_tasks(self, subject: Backend) -> None:
        """If this fails, a handle keeps a task group or a cancel scope open between calls."""
        made: list[AsyncSandbox] = []
        results: list[int] = []

        async def create() -> None:
            made.append(await subject.create(template=self.template, timeout=60))

        async def use() -> None:
            results.append((await made[0].run(self.probes.exit(3))).exit_code)

        async def end() -> None:
            await made[0].kill()

        for step in (create, use, end):
            async with anyio.create_task_group() as group:
                group.start_soon(step)
        assert results == [3]


def beating_code(path: str) -> str:
    """Return Python code that is a heartbeat."""
    return (
        "import time\n"
        "while True:\n"
        f"    with open({path!r}, 'a') as file:\n"
        "        file.write('x')\n"
        "    time.sleep(0.02)\n"
    )
