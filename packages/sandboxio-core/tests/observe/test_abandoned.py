"""A stream makes one record, however it ends, and although nobody ever leaves its block."""

from __future__ import annotations

import warnings
from typing import Any

import anyio
import pytest

from sandboxio import AsyncSandbox, SandboxGone
from sandboxio.audit import AuditConfig, AuditEvent
from sandboxio.errors import AuditSinkWarning
from sandboxio.spi import DriverBackend

BOUND = 30.0
"""Seconds for what ends at once."""


def streams(events: list[AuditEvent]) -> list[tuple[str, int | None, int]]:
    """The outcome, exit code and output of each stream that was recorded."""
    return [
        (event.outcome, event.exit_code, event.bytes_out)
        for event in events
        if event.event == "stream"
    ]


async def test_stream_that_nobody_leaves_is_recorded_when_its_sandbox_is_killed(
    recorded: AsyncSandbox, collected: Any
) -> None:
    process = recorded.stream(["sh", "-c", "printf 12345; sleep 100"])
    await process.__aenter__()
    assert (await anext(aiter(process))).data == b"12345"
    assert collected.take() == []
    await recorded.kill()
    events = collected.take()
    assert [event.event for event in events] == ["stream", "kill"]
    assert streams(events) == [("abandoned", None, 5)]
    await process.__aexit__(None, None, None)
    assert collected.take() == []


async def test_streams_are_recorded_at_the_end_of_the_sandbox_s_block(
    recording_backend: DriverBackend, collected: Any
) -> None:
    async with await recording_backend.create(timeout=100) as sandbox:
        for _ in range(3):
            await sandbox.stream(["sleep", "100"]).__aenter__()
    assert [event.event for event in collected.take()] == ["create", *["stream"] * 3, "kill"]


async def test_command_that_had_ended_by_itself_was_not_abandoned(
    recorded: AsyncSandbox, collected: Any
) -> None:
    process = recorded.stream(["sh", "-c", "exit 3"])
    await process.__aenter__()
    await process.wait()
    await recorded.kill()
    assert streams(collected.take()) == [("ok", 3, 0)]


async def test_stream_that_was_killed_and_never_left_says_killed(
    recorded: AsyncSandbox, collected: Any
) -> None:
    process = recorded.stream(["sleep", "100"])
    await process.__aenter__()
    await process.kill()
    await recorded.kill()
    assert streams(collected.take()) == [("killed", 137, 0)]


async def test_stream_of_a_connected_sandbox_is_recorded_when_the_handle_lets_go(
    recorded: AsyncSandbox, recording_backend: DriverBackend, collected: Any
) -> None:
    async with await recording_backend.connect(recorded.id) as connected:
        await connected.stream(["sleep", "100"]).__aenter__()
    events = collected.take()
    assert [event.event for event in events] == ["connect", "stream"]
    assert streams(events) == [("abandoned", None, 0)]


async def test_reader_at_work_gets_its_error_into_the_record(
    recorded: AsyncSandbox, collected: Any
) -> None:
    reading = anyio.Event()

    async def read() -> None:
        process = recorded.stream(["sleep", "100"])
        await process.__aenter__()
        reading.set()
        with pytest.raises(SandboxGone):
            await process.wait()

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await reading.wait()
            await anyio.wait_all_tasks_blocked()
            await recorded.kill()
    (event,) = [event for event in collected.take() if event.event == "stream"]
    assert (event.outcome, event.error_code) == ("error", "SBX_E1204")


async def test_abandoned_streams_are_recorded_although_the_caller_is_cancelled(
    recorded: AsyncSandbox, collected: Any
) -> None:
    for _ in range(2):
        await recorded.stream(["sleep", "100"]).__aenter__()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await recorded.kill()
    assert [event.event for event in collected.take()] == ["stream", "stream", "kill"]


async def test_sink_that_refuses_an_abandoned_stream_is_warned_of(host_driver: Any) -> None:
    class NoStreams:
        async def emit(self, event: AuditEvent) -> None:
            if event.event == "stream":
                raise OSError("no room for streams")

    audit = AuditConfig(sinks=(NoStreams(),), on_sink_failure="fail")
    sandbox = await DriverBackend(host_driver, audit=audit).create(timeout=100)
    await sandbox.stream(["sleep", "100"]).__aenter__()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await sandbox.kill()
    assert [item.category for item in caught] == [AuditSinkWarning]
    assert sandbox.id not in host_driver.live
