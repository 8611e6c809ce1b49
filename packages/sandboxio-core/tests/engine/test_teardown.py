"""Commands and sandboxes end, whoever is cancelled, and what did not end is said."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from sandboxio.errors import (
    ConnectError,
    ExecutionTimeout,
    OrphanedSandboxWarning,
    OutputLimitExceeded,
    SandboxCorrupted,
    SandboxGone,
)
from sandboxio.models import OutputChunk
from sandboxio.spi import DriverBackend, ExitCause, ProcessExit

Act = Callable[[], Awaitable[Any]]
Fail = Callable[[BaseException], Act]

BOUND = 30
"""Seconds for what takes a fraction of one; the machine may be busy."""


async def made(backend: DriverBackend, driver: Any) -> tuple[Any, Any]:
    """A sandbox, and the script of its driver's side."""
    sandbox = await backend.create(metadata={"tenant_id": "t-1"})
    return sandbox, driver.sandboxes[-1]


async def cancelled_in_run(sandbox: Any) -> None:
    """Cancel a run that has begun and hangs."""
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.run, ["x"])
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()


# ----- commands


async def test_cancelled_run_kills_the_command_and_nothing_else(
    backend: DriverBackend, driver: Any, hang: Act
) -> None:
    sandbox, script = await made(backend, driver)
    script.process.acts["receive"] = hang
    await cancelled_in_run(sandbox)
    assert script.process.calls.count("kill") == 1
    assert script.process.closed == 1
    assert "terminate" not in script.calls
    assert (await sandbox.run(["x"])).ok
    await sandbox.kill()


@pytest.mark.parametrize("way", ["unconfirmed", "raises", "hangs"])
async def test_cancelled_run_whose_kill_is_not_confirmed_ends_the_sandbox(
    backend: DriverBackend, driver: Any, hang: Act, fail: Fail, way: str, short_grace: None
) -> None:
    sandbox, script = await made(backend, driver)
    script.process.acts["receive"] = hang

    async def no() -> bool:
        return False

    script.process.acts["kill"] = {"unconfirmed": no, "raises": fail(OSError()), "hangs": hang}[way]
    await cancelled_in_run(sandbox)
    assert script.calls.count("terminate") == 1
    assert not driver.there
    with pytest.raises(SandboxGone):
        await sandbox.run(["x"])


@pytest.mark.parametrize("confirmed", [True, False])
async def test_timeout_says_whether_the_kill_is_confirmed_and_keeps_the_output(
    backend: DriverBackend, driver: Any, hang: Act, fail: Fail, confirmed: bool
) -> None:
    sandbox, script = await made(backend, driver)
    script.process.chunks = [OutputChunk("stdout", b"part"), OutputChunk("stderr", b"err")]
    script.process.acts["receive"] = hang
    script.process.exit = ProcessExit(137, ExitCause.KILLED)
    if not confirmed:
        script.process.acts["kill"] = fail(OSError("no answer"))
        script.acts["terminate"] = fail(OSError("no answer either"))
    with anyio.fail_after(BOUND), pytest.raises(ExecutionTimeout) as caught:
        await sandbox.run(["x"], timeout=0.05)
    assert caught.value.kill_confirmed is confirmed
    assert (caught.value.stdout, caught.value.stderr) == ("part", "err")
    assert ("NOT" in caught.value.message) is not confirmed
    script.acts.clear()
    await sandbox.kill()


async def test_timeout_before_the_command_has_started(
    backend: DriverBackend, driver: Any, hang: Act
) -> None:
    sandbox, script = await made(backend, driver)
    script.acts["start"] = hang
    with anyio.fail_after(BOUND), pytest.raises(ExecutionTimeout) as caught:
        await sandbox.run(["x"], timeout=0.05)
    assert caught.value.stdout == ""
    await sandbox.kill()


@pytest.mark.parametrize("code", [124, 137, 143])
async def test_exit_code_is_never_taken_for_a_timeout(
    backend: DriverBackend, driver: Any, code: int
) -> None:
    sandbox, script = await made(backend, driver)
    script.process.exit = ProcessExit(code)
    assert (await sandbox.run(["x"])).exit_code == code
    await sandbox.kill()


async def test_deadline_that_the_far_side_enforced_is_a_timeout(
    backend: DriverBackend, driver: Any
) -> None:
    sandbox, script = await made(backend, driver)
    script.process.chunks = [OutputChunk("stdout", b"part")]
    script.process.exit = ProcessExit(137, ExitCause.TIMED_OUT)
    with pytest.raises(ExecutionTimeout) as caught:
        await sandbox.run(["x"])
    assert caught.value.stdout == "part"
    await sandbox.kill()


async def test_process_is_released_exactly_once_however_it_ends(
    backend: DriverBackend, driver: Any, hang: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox, script = await made(backend, driver)
    process = script.process
    closed = 0

    def once_more() -> None:
        nonlocal closed
        closed += 1
        assert process.closed == closed

    await sandbox.run(["x"])
    once_more()
    process.acts["receive"] = hang
    with pytest.raises(ExecutionTimeout):
        await sandbox.run(["x"], timeout=0.05)
    once_more()
    process.acts["receive"] = hang
    await cancelled_in_run(sandbox)
    once_more()
    monkeypatch.setenv("SBX_MAX_OUTPUT_MB", "0.00001")
    process.chunks = [OutputChunk("stdout", b"x" * 100)]
    with pytest.raises(OutputLimitExceeded):
        await sandbox.run(["x"])
    once_more()
    async with sandbox.stream(["x"]) as stream:
        assert [chunk async for chunk in stream] == []
    once_more()
    process.acts["receive"] = hang
    async with sandbox.stream(["x"]) as stream:
        await stream.kill()
        assert process.closed == closed
    once_more()
    with pytest.raises(ZeroDivisionError):
        async with sandbox.stream(["x"]):
            raise ZeroDivisionError
    once_more()
    await sandbox.kill()


async def test_output_that_had_arrived_is_handed_out_after_a_kill(
    backend: DriverBackend, driver: Any, hang: Act
) -> None:
    sandbox, script = await made(backend, driver)
    chunks = [OutputChunk("stdout", b"1"), OutputChunk("stdout", b"2")]
    script.process.chunks = list(chunks)
    script.process.acts["receive"] = hang
    script.process.exit = ProcessExit(137, ExitCause.KILLED)
    async with sandbox.stream(["x"]) as stream:
        assert await anext(aiter(stream)) == chunks[0]
        await stream.kill()
        assert [chunk async for chunk in stream] == chunks[1:]
        assert (await stream.wait()).exit_code == 137
    await sandbox.kill()


async def test_command_that_ended_in_time_is_no_timeout_for_a_late_reader(
    backend: DriverBackend, driver: Any
) -> None:
    sandbox, script = await made(backend, driver)
    script.process.chunks = [OutputChunk("stdout", b"1")]
    async with sandbox.stream(["x"], timeout=0.01) as stream:
        await anyio.sleep(0.05)  # past the deadline, which is what this is about
        assert [chunk.data async for chunk in stream] == [b"1"]
        assert (await stream.wait()).ok
    await sandbox.kill()


async def test_command_that_did_not_is_one_at_every_call(
    backend: DriverBackend, driver: Any
) -> None:
    sandbox, script = await made(backend, driver)
    script.process.exit = ProcessExit(137, ExitCause.KILLED)
    async with sandbox.stream(["x"], timeout=0.01) as stream:
        await anyio.sleep(0.05)  # past the deadline, which is what this is about
        for attempt in (stream.wait, stream.wait, lambda: stream.signal(15)):
            with pytest.raises(ExecutionTimeout):
                await attempt()
        with pytest.raises(ExecutionTimeout):
            await anext(aiter(stream))
    assert script.process.calls.count("kill") == 1
    await sandbox.kill()


async def test_kill_of_a_stream_that_cannot_be_confirmed_is_an_error(
    backend: DriverBackend, driver: Any, hang: Act, fail: Fail
) -> None:
    sandbox, script = await made(backend, driver)
    script.process.acts["kill"] = fail(OSError())
    script.acts["terminate"] = fail(OSError("refused"))
    async with sandbox.stream(["x"]) as stream:
        with pytest.raises(ConnectError, match="confirmed"):
            await stream.kill()
    script.acts.clear()
    await sandbox.kill()


async def test_two_kills_of_a_stream_at_once_are_one(backend: DriverBackend, driver: Any) -> None:
    sandbox, script = await made(backend, driver)
    release = anyio.Event()

    async def slow() -> bool:
        await release.wait()
        return True

    script.process.acts["kill"] = slow
    async with sandbox.stream(["x"]) as stream, anyio.create_task_group() as group:
        group.start_soon(stream.kill)
        group.start_soon(stream.kill)
        await anyio.wait_all_tasks_blocked()
        release.set()
    assert script.process.calls.count("kill") == 1
    await sandbox.kill()


# ----- sandboxes


async def test_kill_is_idempotent(backend: DriverBackend, driver: Any) -> None:
    sandbox, script = await made(backend, driver)
    await sandbox.kill()
    await sandbox.kill()
    assert script.calls.count("terminate") == 1
    with pytest.raises(SandboxGone):
        await sandbox.run(["x"])
    with pytest.raises(SandboxGone):
        await sandbox.files.ls()
    with pytest.raises(SandboxGone):
        sandbox.stream(["x"])


async def test_kills_at_once_end_it_once(backend: DriverBackend, driver: Any) -> None:
    sandbox, script = await made(backend, driver)
    release = anyio.Event()
    script.acts["terminate"] = release.wait
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(sandbox.kill)
            await anyio.wait_all_tasks_blocked()
            release.set()
    assert script.calls.count("terminate") == 1


async def test_kill_that_failed_is_repeated(
    backend: DriverBackend, driver: Any, fail: Fail
) -> None:
    sandbox, script = await made(backend, driver)
    cause = RuntimeError("the provider refuses")
    script.acts["terminate"] = fail(cause)
    for _ in range(2):
        with pytest.raises(ConnectError, match="the provider refuses") as caught:
            await sandbox.kill()
        assert caught.value.__cause__ is cause
        assert "reap" in caught.value.hint
        assert driver.there
    del script.acts["terminate"]
    await sandbox.kill()
    assert not driver.there
    assert not backend.open_sandboxes


async def test_kill_of_what_is_gone_succeeds(
    backend: DriverBackend, driver: Any, fail: Fail
) -> None:
    sandbox, script = await made(backend, driver)
    script.acts["terminate"] = fail(SandboxGone("gone"))
    await sandbox.kill()


async def test_kill_that_is_not_confirmed_in_time_warns_of_an_orphan(
    backend: DriverBackend, driver: Any, hang: Act, short_grace: None
) -> None:
    sandbox, script = await made(backend, driver)
    script.acts["terminate"] = hang
    with pytest.warns(OrphanedSandboxWarning) as caught, pytest.raises(ConnectError):
        await sandbox.kill()
    text = str(caught[0].message)
    assert sandbox.id in text
    assert "scripted" in text
    assert "t-1" in text
    del script.acts["terminate"]
    await sandbox.kill()
    assert not driver.there


async def test_orphan_is_warned_of_when_the_caller_is_cancelled_too(
    backend: DriverBackend, driver: Any, hang: Act, short_grace: None
) -> None:
    sandbox, script = await made(backend, driver)
    script.acts["terminate"] = hang

    async def leave_cancelled() -> None:
        with anyio.CancelScope() as scope:
            async with sandbox:
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught

    with pytest.warns(OrphanedSandboxWarning):
        await leave_cancelled()
    del script.acts["terminate"]
    await sandbox.kill()


async def test_error_of_the_block_survives_a_teardown_that_fails(
    backend: DriverBackend, driver: Any, fail: Fail
) -> None:
    sandbox, script = await made(backend, driver)
    script.acts["terminate"] = fail(RuntimeError("refused"))
    with pytest.warns(OrphanedSandboxWarning), pytest.raises(ZeroDivisionError):
        async with sandbox:
            raise ZeroDivisionError
    with pytest.raises(ConnectError):
        async with await backend.create():
            driver.sandboxes[-1].acts["terminate"] = fail(RuntimeError("refused"))


async def test_corrupted_sandbox_is_ended_and_again_if_that_fails(
    backend: DriverBackend, driver: Any, fail: Fail
) -> None:
    sandbox, script = await made(backend, driver)
    script.acts["start"] = fail(SandboxCorrupted("nonsense"))
    script.acts["terminate"] = fail(RuntimeError("refused"))
    with pytest.raises(SandboxCorrupted):
        await sandbox.run(["x"])
    assert driver.there
    del script.acts["terminate"]
    with pytest.raises(SandboxCorrupted):
        await sandbox.run(["x"])
    assert not driver.there
    with pytest.raises(SandboxGone):
        await sandbox.run(["x"])


async def test_cancellation_surfaces_as_cancellation(
    backend: DriverBackend, driver: Any, hang: Act
) -> None:
    sandbox, script = await made(backend, driver)
    for name in ("start", "ls"):
        script.acts[name] = hang
    seen: list[type[BaseException]] = []

    async def watch(call: Act) -> None:
        try:
            await call()
        except BaseException as error:
            seen.append(type(error))
            raise

    async with anyio.create_task_group() as group:
        group.start_soon(watch, lambda: sandbox.run(["x"]))
        group.start_soon(watch, sandbox.files.ls)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert len(seen) == 2
    assert all(issubclass(kind, anyio.get_cancelled_exc_class()) for kind in seen)
    await sandbox.kill()


async def test_callers_own_deadline_is_not_ours(
    backend: DriverBackend, driver: Any, hang: Act
) -> None:
    sandbox, script = await made(backend, driver)
    script.process.acts["receive"] = hang
    with pytest.raises(TimeoutError):
        with anyio.fail_after(0.05):
            await sandbox.run(["x"], timeout=50)
    assert script.process.calls.count("kill") == 1
    await sandbox.kill()


async def test_inner_scope_of_the_caller_ends_only_the_call(
    backend: DriverBackend, driver: Any, hang: Act
) -> None:
    sandbox, script = await made(backend, driver)
    script.process.acts["receive"] = hang
    async with sandbox:
        with anyio.move_on_after(0.05) as inner:
            await sandbox.run(["x"])
        assert inner.cancelled_caught
        assert (await sandbox.run(["x"])).ok
    assert not driver.there


async def test_handle_may_be_used_and_closed_from_any_task(
    backend: DriverBackend, driver: Any
) -> None:
    sandbox, _ = await made(backend, driver)
    stream = sandbox.stream(["x"])
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.__aenter__)
        group.start_soon(stream.__aenter__)
    async with anyio.create_task_group() as group:
        group.start_soon(stream.wait)
    async with anyio.create_task_group() as group:
        group.start_soon(stream.__aexit__, None, None, None)
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.__aexit__, None, None, None)
    assert not driver.there


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("times", [1, 2, 4])
@pytest.mark.parametrize("part", ["command", "sandbox"])
async def test_native_cancellations_do_not_cut_a_teardown_short(
    backend: DriverBackend, driver: Any, hang: Act, times: int, part: str
) -> None:
    sandbox, script = await made(backend, driver)
    ended: list[str] = []

    async def slow() -> bool:
        for _ in range(10):
            await anyio.sleep(0.01)
        ended.append(part)
        return True

    script.process.acts["receive"] = hang
    (script.process if part == "command" else script).acts[
        "kill" if part == "command" else "terminate"
    ] = slow

    async def use() -> None:
        async with sandbox:
            await sandbox.run(["x"])

    task = asyncio.ensure_future(use())
    await anyio.wait_all_tasks_blocked()
    for _ in range(times):
        task.cancel()
        await anyio.sleep(0.015)
    with anyio.fail_after(BOUND), pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [part]
    assert not driver.there


async def test_attached_sandbox_is_let_go_and_kill_ends_it(
    backend: DriverBackend, driver: Any
) -> None:
    sandbox, _ = await made(backend, driver)
    async with await backend.connect(sandbox.id):
        pass
    assert driver.sandboxes[-1].calls == ["detach"]
    assert driver.there == {sandbox.id}
    async with await backend.connect(sandbox.id) as attached:
        await attached.kill()
    assert not driver.there
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await sandbox.kill()
