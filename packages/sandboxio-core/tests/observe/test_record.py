"""One record of every operation: which, when, and what is in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from sandboxio import (
    PIPE,
    AsyncSandbox,
    CapabilityNotSupported,
    ConfigurationError,
    ConnectError,
    CreationError,
    ExecutionTimeout,
    IsolationTier,
    OutputLimitExceeded,
    PathNotFound,
    SandboxGone,
)
from sandboxio._observe.record import Record, Subject
from sandboxio._observe.redaction import Redactor
from sandboxio._observe.routing import RoutedCreate, routed_by
from sandboxio.audit import AuditConfig, AuditEvent
from sandboxio.spi import DriverBackend

BOUND = 30.0
"""Seconds for what ends at once."""


async def test_run_is_one_exec(recorded: AsyncSandbox, collected: Any) -> None:
    before = datetime.now(UTC)
    result = await recorded.run(["sh", "-c", "cat; exit 3"], stdin="hello")
    (event,) = collected.take()
    assert (event.event, event.argv, event.exit_code) == ("exec", ("sh", "-c", "cat; exit 3"), 3)
    assert (event.bytes_in, event.bytes_out) == (5, 5)
    assert (event.outcome, event.error_type, event.error) == ("ok", None, None)
    assert event.sandbox_id == recorded.id
    assert event.backend == "host"
    assert event.isolation is IsolationTier.CONTAINER
    assert event.policy == recorded.policy
    assert (event.tenant_id, event.session_id) == ("acme", "s-1")
    assert before <= event.ts <= datetime.now(UTC)
    assert event.ts.utcoffset() == timedelta(0)
    assert event.network_denials is None
    assert event.code is None
    assert event.code_sha256 == ""
    assert result.meter is not None
    assert result.meter.duration_ms == event.duration_ms
    assert result.meter.backend == "host"


async def test_time_is_split_into_waiting_and_running(
    recorded: AsyncSandbox, collected: Any
) -> None:
    result = await recorded.run(["sleep", "1"])
    (event,) = collected.take()
    # It is counted from when the host has heard of the start, which may be late.
    assert 500 <= event.running_ms <= event.duration_ms
    assert event.duration_ms >= 1000
    assert event.waiting_ms + event.running_ms == event.duration_ms
    assert result.meter is not None
    assert (result.meter.waiting_ms, result.meter.running_ms) == (
        event.waiting_ms,
        event.running_ms,
    )


async def test_a_command_that_never_started_has_only_waited(
    recorded: AsyncSandbox, collected: Any
) -> None:
    with pytest.raises(PathNotFound):
        await recorded.run(["true"], cwd="/no/such/place")
    (event,) = collected.take()
    assert (event.waiting_ms, event.running_ms, event.exit_code) == (None, None, None)
    assert (event.outcome, event.error_type, event.error_code) == (
        "error",
        "PathNotFound",
        "SBX_E1701",
    )


async def test_run_code_is_hashed_and_its_text_is_there_if_asked_for(
    recorded: AsyncSandbox, collected: Any
) -> None:
    code = "print('é' * 3)"
    await recorded.run_code(code)
    (event,) = collected.take()
    assert event.event == "run_code"
    assert event.argv is None
    assert event.code_sha256 == hashlib.sha256(code.encode()).hexdigest()
    assert event.code == code
    assert (event.bytes_in, event.bytes_out) == (len(code.encode()), 7)


async def test_code_is_not_captured_by_default(host_driver: Any, collected: Any) -> None:
    backend = DriverBackend(host_driver, audit=AuditConfig(sinks=(collected,)))
    async with await backend.create(timeout=60) as sandbox:
        await sandbox.run_code("print('secret sauce')")
    assert "sauce" not in "".join(event.as_line() for event in collected.events)
    assert all("code" not in event.as_dict() for event in collected.events)


async def test_a_stream_is_one_record_with_its_bytes_and_exit_code(
    recorded: AsyncSandbox, collected: Any
) -> None:
    async with recorded.stream(["sh", "-c", "cat; exit 4"], stdin=PIPE) as process:
        await process.send("abc")
        await process.send(b"de")
        await process.send_eof()
        async for _ in process:
            pass
        assert collected.events == []
        result = await process.wait()
        assert result.meter is not None
        measured = result.meter.duration_ms
    (event,) = collected.take()
    assert (event.event, event.outcome, event.exit_code) == ("stream", "ok", 4)
    assert (event.bytes_in, event.bytes_out) == (5, 5)
    assert event.duration_ms == measured


def test_what_a_reader_does_after_the_end_of_the_command_is_not_the_command_s_time() -> None:
    times = iter([10.0, 11.5, 14.0, 99.0])
    subject = Subject("sbx-1", "host", IsolationTier.CONTAINER, Redactor(), now=lambda: next(times))
    record = Record(subject, "stream")
    record.has_started()
    record.has_ended(0)
    record.close(None)
    event = record.render(capture_code=False)
    assert (event.duration_ms, event.waiting_ms, event.running_ms) == (4000, 1500, 2500)


async def test_a_stream_that_is_left_early_is_killed(
    recorded: AsyncSandbox, collected: Any
) -> None:
    async with recorded.stream(["sleep", "100"]):
        pass
    (event,) = collected.take()
    assert (event.outcome, event.exit_code, event.error_type) == ("killed", 137, None)


async def test_an_error_of_the_block_is_not_the_command_s(
    recorded: AsyncSandbox, collected: Any
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with recorded.stream(["sleep", "100"]):
            raise ZeroDivisionError("the user's own, with a private text")
    (event,) = collected.take()
    assert (event.outcome, event.error_type, event.error) == ("killed", None, None)


async def test_a_stream_that_cannot_start_is_recorded(
    recorded: AsyncSandbox, collected: Any
) -> None:
    with pytest.raises(PathNotFound):
        async with recorded.stream(["true"], cwd="/no/such/place"):
            pytest.fail("entered")
    (event,) = collected.take()
    assert (event.event, event.outcome, event.error_type) == ("stream", "error", "PathNotFound")


async def test_a_stream_that_times_out_is_recorded_so_however_it_is_left(
    recorded: AsyncSandbox, collected: Any
) -> None:
    async with recorded.stream(["sleep", "100"], timeout=2) as process:
        with pytest.raises(ExecutionTimeout):
            await process.wait()
    (event,) = collected.take()
    assert (event.outcome, event.error_type) == ("timeout", "ExecutionTimeout")


async def test_a_stream_that_was_never_entered_is_no_operation(
    recorded: AsyncSandbox, collected: Any
) -> None:
    recorded.stream(["true"])
    assert collected.take() == []


async def test_timeouts_are_recorded(recorded: AsyncSandbox, collected: Any) -> None:
    with pytest.raises(ExecutionTimeout):
        await recorded.run("echo partial; sleep 100", timeout=2)
    (event,) = collected.take()
    assert (event.outcome, event.error_type, event.error_code) == (
        "timeout",
        "ExecutionTimeout",
        "SBX_E1302",
    )
    assert event.bytes_out == len("partial\n")
    assert event.duration_ms >= 2000


async def test_a_cancelled_operation_is_recorded(recorded: AsyncSandbox, collected: Any) -> None:
    with anyio.move_on_after(0.3):
        await recorded.run(["sleep", "100"])
    (event,) = collected.take()
    assert (event.event, event.outcome, event.error_type) == ("exec", "cancelled", "cancelled")
    assert event.error is None


async def test_a_cancelled_stream_is_recorded(recorded: AsyncSandbox, collected: Any) -> None:
    with anyio.move_on_after(0.3):
        async with recorded.stream(["sleep", "100"]) as process:
            await process.wait()
    (event,) = collected.take()
    assert (event.event, event.outcome) == ("stream", "cancelled")


async def test_output_beyond_the_bound_is_recorded(
    recorded: AsyncSandbox, collected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_MAX_OUTPUT_MB", "0.01")
    with pytest.raises(OutputLimitExceeded):
        await recorded.run(["yes"])
    (event,) = collected.take()
    assert (event.outcome, event.error_type) == ("error", "OutputLimitExceeded")


async def test_every_file_operation_is_one_record(
    recorded: AsyncSandbox, collected: Any, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 1000)
    files = recorded.files
    calls: list[tuple[Callable[[], Awaitable[object]], tuple[object, ...]]] = [
        (lambda: files.mkdir("d"), ("file_mkdir", "d", 0, 0)),
        (lambda: files.write("d/a", "héllo"), ("file_write", "d/a", 6, 0)),
        (lambda: files.read("d/a"), ("file_read", "d/a", 0, 6)),
        (lambda: files.upload(source, "d/b"), ("file_upload", "d/b", 1000, 0)),
        (lambda: files.download("d/b", tmp_path / "back"), ("file_download", "d/b", 0, 1000)),
        (lambda: files.ls("d"), ("file_list", "d", 0, 0)),
        (lambda: files.stat("d/a"), ("file_stat", "d/a", 0, 0)),
        (lambda: files.remove("d"), ("file_remove", "d", 0, 0)),
    ]
    for call, expected in calls:
        await call()
        (event,) = collected.take()
        assert (event.event, event.path, event.bytes_in, event.bytes_out) == expected
        assert event.outcome == "ok"
        assert (event.exit_code, event.argv) == (None, None)


async def test_a_file_operation_that_fails_is_recorded(
    recorded: AsyncSandbox, collected: Any
) -> None:
    with pytest.raises(PathNotFound):
        await recorded.files.read("no such file")
    (event,) = collected.take()
    assert (event.event, event.outcome, event.error_type) == ("file_read", "error", "PathNotFound")
    assert "no such file" in event.error


async def test_create_and_kill_are_recorded(
    recording_backend: DriverBackend, collected: Any
) -> None:
    sandbox = await recording_backend.create(timeout=60, metadata={"tenant_id": "acme"})
    (created,) = collected.take()
    assert (created.event, created.sandbox_id, created.outcome) == ("create", sandbox.id, "ok")
    assert (created.policy, created.tenant_id) == (sandbox.policy, "acme")
    await sandbox.kill()
    (killed,) = collected.take()
    assert (killed.event, killed.sandbox_id, killed.outcome) == ("kill", sandbox.id, "ok")
    await sandbox.kill()
    assert collected.take() == [], "nothing was done, so nothing is recorded"


async def test_the_end_of_the_block_is_a_kill(
    recording_backend: DriverBackend, collected: Any
) -> None:
    async with await recording_backend.create(timeout=60):
        pass
    assert [event.event for event in collected.take()] == ["create", "kill"]


async def test_connect_is_recorded_and_letting_go_is_no_kill(
    recorded: AsyncSandbox, recording_backend: DriverBackend, collected: Any
) -> None:
    async with await recording_backend.connect(recorded.id):
        (event,) = collected.take()
        assert (event.event, event.sandbox_id, event.outcome) == ("connect", recorded.id, "ok")
    assert collected.take() == []


async def test_connect_to_nothing_is_recorded(
    recording_backend: DriverBackend, collected: Any
) -> None:
    with pytest.raises(ConnectError):
        await recording_backend.connect("no-such-sandbox")
    (event,) = collected.take()
    assert (event.event, event.sandbox_id) == ("connect", "no-such-sandbox")
    assert (event.outcome, event.error_type) == ("error", "ConnectError")


async def test_kill_by_id_is_recorded(recording_backend: DriverBackend, collected: Any) -> None:
    sandbox = await recording_backend.create(timeout=60)
    collected.take()
    assert await recording_backend.kill_managed(sandbox.id)
    (event,) = collected.take()
    assert (event.event, event.sandbox_id, event.outcome) == ("kill", sandbox.id, "ok")


async def test_a_create_that_fails_is_recorded_under_the_name_chosen_for_it(
    host_driver: Any, collected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def provision(request: Any) -> object:
        host_driver.requests.append(request)
        raise OSError("the engine said no")

    monkeypatch.setattr(host_driver, "provision", provision)
    backend = DriverBackend(host_driver, audit=AuditConfig(sinks=(collected,)))
    with pytest.raises(CreationError):
        await backend.create(timeout=60)
    (event,) = collected.take()
    assert (event.event, event.sandbox_id) == ("create", host_driver.requests[0].name)
    assert (event.outcome, event.error_type) == ("error", "CreationError")
    assert event.policy is None


async def test_a_refused_operation_is_recorded(recorded: AsyncSandbox, collected: Any) -> None:
    with pytest.raises(CapabilityNotSupported):
        await recorded.run_code("1", language="ruby")
    (event,) = collected.take()
    assert (event.event, event.outcome) == ("run_code", "error")
    assert event.error_type == "CapabilityNotSupported"


async def test_a_call_that_is_no_operation_at_all_is_not_recorded(
    recorded: AsyncSandbox, collected: Any
) -> None:
    with pytest.raises(ConfigurationError):
        await recorded.run([])
    assert collected.take() == []


async def test_an_operation_on_an_ended_sandbox_is_recorded(
    recording_backend: DriverBackend, collected: Any
) -> None:
    sandbox = await recording_backend.create(timeout=60)
    await sandbox.kill()
    collected.take()
    with pytest.raises(SandboxGone):
        await sandbox.run(["true"])
    (event,) = collected.take()
    assert (event.event, event.error_type) == ("exec", "SandboxGone")


async def test_the_routing_decision_is_in_every_record_of_what_it_chose(
    recording_backend: DriverBackend, collected: Any
) -> None:
    decision = {"rule": "eu first", "candidates": [{"name": "a", "taken": False, "reason": "down"}]}
    routed = RoutedCreate(record=decision, decision=cast(Any, object()), ready_within=60)
    with routed_by(routed):
        sandbox = await recording_backend.create(timeout=60, secrets={"S": "eu first"})
    async with sandbox:
        await sandbox.run(["true"])
    async with await recording_backend.create(timeout=60):
        pass
    routings = [(event.event, event.routing) for event in collected.take()]
    masked = {**decision, "rule": "***"}
    assert routings == [
        ("create", masked),
        ("exec", masked),
        ("kill", masked),
        ("create", None),
        ("kill", None),
    ]


async def test_concurrent_operations_have_a_record_each(
    recorded: AsyncSandbox, collected: Any
) -> None:
    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(recorded.run, ["echo", str(number)])
    commands = sorted(event.argv[1] for event in collected.take())
    assert commands == sorted(str(number) for number in range(30))


async def test_an_event_is_one_line_of_json_with_the_fields_of_the_event(
    recorded: AsyncSandbox, collected: Any
) -> None:
    await recorded.run(["echo", "a\nb", "\udcff", "é"])
    (event,) = collected.take()
    line = event.as_line()
    assert "\n" not in line
    assert line.isascii()
    values = json.loads(line)
    assert values == event.as_dict()
    assert values["argv"] == ["echo", "a\nb", "\udcff", "é"]
    assert list(values)[:4] == ["ts", "event", "sandbox_id", "backend"]
    assert datetime.fromisoformat(values["ts"]) == event.ts
    assert values["policy"]["network"] == {"egress": "deny", "allow": [], "ingress_ports": []}


def test_every_field_of_the_event_is_in_the_documented_order_and_kind() -> None:
    # The names that the specification gives, in its order; what follows them is ours.
    promised = [
        *("ts", "event", "sandbox_id", "backend", "isolation", "tenant_id", "session_id"),
        *("code_sha256", "argv", "exit_code", "duration_ms", "bytes_in", "bytes_out"),
        *("network_denials", "code"),
    ]
    assert list(AuditEvent.__dataclass_fields__)[: len(promised)] == promised


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: AuditConfig(on_sink_failure=cast(Any, "ignore")),
        lambda: AuditConfig(sinks=cast(Any, "file")),
        lambda: AuditConfig(sinks=cast(Any, (object(),))),
    ],
)
def test_wrong_configuration_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        wrong()


def test_a_backend_takes_nothing_else_for_its_configuration(host_driver: Any) -> None:
    with pytest.raises(ConfigurationError, match="AuditConfig"):
        DriverBackend(host_driver, audit=cast(Any, "audit.jsonl"))
