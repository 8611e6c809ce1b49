"""Spans, with the real OpenTelemetry SDK and an exporter that keeps them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from sandboxio import (
    AsyncSandbox,
    AuditSinkError,
    ExecutionTimeout,
    PathNotFound,
    otel,
)
from sandboxio.audit import AuditConfig, AuditEvent
from sandboxio.spi import DriverBackend


def set_provider(provider: TracerProvider | None) -> None:
    """Set the global provider as often as a test needs; the API lets a program set it once."""
    trace._TRACER_PROVIDER_SET_ONCE._done = False
    trace._TRACER_PROVIDER = None
    if provider is not None:
        trace.set_tracer_provider(provider)


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    """The spans that a provider of the SDK exports."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    set_provider(provider)
    yield exporter
    set_provider(None)


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_an_operation_is_an_execute_tool_span(
    exported: InMemorySpanExporter, recorded: AsyncSandbox
) -> None:
    await recorded.run(["sh", "-c", "cat; exit 3"], stdin="hello")
    span = by_name(exported)["execute_tool exec"]
    assert span.kind is SpanKind.INTERNAL
    assert span.status.status_code is StatusCode.UNSET, "that it exits non-zero is no failure of it"
    assert span.events == ()
    found = attributes(span)
    durations = {
        name: found.pop(f"sandboxio.{name}_ms") for name in ("duration", "waiting", "running")
    }
    assert durations["duration"] == durations["waiting"] + durations["running"]
    assert found == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "exec",
        "sandboxio.sandbox.id": recorded.id,
        "sandboxio.backend": "host",
        "sandboxio.isolation": "container",
        "sandboxio.tenant_id": "acme",
        "sandboxio.session_id": "s-1",
        "sandboxio.outcome": "ok",
        "sandboxio.exit_code": 3,
        "sandboxio.bytes_in": 5,
        "sandboxio.bytes_out": 5,
        "sandboxio.argv": ("sh", "-c", "cat; exit 3"),
        "sandboxio.policy.egress": "deny",
        "sandboxio.policy.network_verified": False,
        "sandboxio.policy.lifetime_s": 300,
    }
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "sandboxio"
    assert span.instrumentation_scope.version


async def test_every_operation_is_a_span_of_its_own(
    exported: InMemorySpanExporter, recording_backend: DriverBackend
) -> None:
    async with await recording_backend.create(timeout=60) as sandbox:
        await sandbox.run(["true"])
        await sandbox.run_code("print(1)")
        async with sandbox.stream(["true"]) as process:
            await process.wait()
        await sandbox.files.write("a", "b")
        await sandbox.files.read("a")
        async with await recording_backend.connect(sandbox.id):
            pass
    assert [span.name.removeprefix("execute_tool ") for span in exported.get_finished_spans()] == [
        *("create", "exec", "run_code", "stream", "file_write", "file_read", "connect", "kill"),
    ]
    assert all(
        attributes(span)["gen_ai.tool.name"] == span.name.removeprefix("execute_tool ")
        for span in exported.get_finished_spans()
    )


async def test_a_span_nests_under_the_caller_s(
    exported: InMemorySpanExporter, recorded: AsyncSandbox
) -> None:
    with trace.get_tracer("agent").start_as_current_span("invoke_agent planner") as outer:
        await recorded.run(["true"])
        async with recorded.stream(["true"]) as process:
            await process.wait()
    spans = by_name(exported)
    for name in ("execute_tool exec", "execute_tool stream"):
        span = spans[name]
        assert span.parent is not None
        assert span.parent.span_id == outer.get_span_context().span_id
        assert span.context is not None
        assert span.context.trace_id == outer.get_span_context().trace_id


async def test_what_the_driver_does_nests_under_the_span(
    exported: InMemorySpanExporter, host_driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    provision = host_driver.provision

    async def traced(request: Any) -> object:
        with trace.get_tracer("http client").start_as_current_span("POST /containers"):
            return await provision(request)

    monkeypatch.setattr(host_driver, "provision", traced)
    async with await DriverBackend(host_driver).create(timeout=60):
        pass
    spans = by_name(exported)
    inner, ours = spans["POST /containers"], spans["execute_tool create"]
    assert inner.parent is not None
    assert ours.context is not None
    assert inner.parent.span_id == ours.context.span_id


async def test_no_span_of_ours_is_current_after_an_operation_or_within_a_stream(
    exported: InMemorySpanExporter, recorded: AsyncSandbox
) -> None:
    await recorded.run(["true"])
    assert trace.get_current_span() is trace.INVALID_SPAN
    async with recorded.stream(["true"]) as process:
        assert trace.get_current_span() is trace.INVALID_SPAN
        await process.wait()
    with pytest.raises(PathNotFound):
        await recorded.files.read("nothing")
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_stream_may_be_left_by_another_task(
    exported: InMemorySpanExporter, recorded: AsyncSandbox
) -> None:
    process = recorded.stream(["true"])
    await process.__aenter__()
    async with anyio.create_task_group() as group:
        group.start_soon(process.__aexit__, None, None, None)
    assert "execute_tool stream" in by_name(exported)


async def test_an_error_is_recorded_without_the_source_of_the_caller(
    exported: InMemorySpanExporter, recorded: AsyncSandbox
) -> None:
    with pytest.raises(PathNotFound):
        await recorded.files.read("no such file")  # the source line that must not be exported
    span = by_name(exported)["execute_tool file_read"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is not None
    assert "no such file" in span.status.description
    found = attributes(span)
    assert (found["error.type"], found["sandboxio.error.code"]) == ("PathNotFound", "SBX_E1701")
    (event,) = span.events
    assert event.name == "exception"
    assert dict(event.attributes or {}) == {
        "exception.type": "PathNotFound",
        "exception.message": span.status.description,
    }
    assert "must not be exported" not in span.to_json()


async def test_timeouts_and_cancellations_are_errors_of_their_own_kind(
    exported: InMemorySpanExporter, recorded: AsyncSandbox
) -> None:
    with pytest.raises(ExecutionTimeout):
        await recorded.run(["sleep", "100"], timeout=0.2)
    with anyio.move_on_after(0.2):
        await recorded.run(["sleep", "100"])
    timeout, cancelled = [
        span for span in exported.get_finished_spans() if span.name == "execute_tool exec"
    ]
    assert attributes(timeout)["error.type"] == "ExecutionTimeout"
    assert attributes(timeout)["sandboxio.outcome"] == "timeout"
    assert attributes(cancelled)["error.type"] == "cancelled"
    assert cancelled.status.status_code is StatusCode.ERROR


async def test_an_operation_that_could_not_be_recorded_is_an_error_of_its_span(
    exported: InMemorySpanExporter, host_driver: Any
) -> None:
    class Broken:
        async def emit(self, event: AuditEvent) -> None:
            if event.event == "exec":
                raise OSError("no")

    audit = AuditConfig(sinks=(Broken(),), on_sink_failure="fail")
    async with await DriverBackend(host_driver, audit=audit).create(timeout=60) as sandbox:
        with pytest.raises(AuditSinkError):
            await sandbox.run(["true"])
    assert attributes(by_name(exported)["execute_tool exec"])["error.type"] == "AuditSinkError"


async def test_code_is_exported_if_asked_for_and_masked(
    exported: InMemorySpanExporter, host_driver: Any, recording_backend: DriverBackend
) -> None:
    async with await recording_backend.create(timeout=60, secrets={"S": "hunter2!"}) as sandbox:
        await sandbox.run_code("print('hunter2!')")
    found = attributes(by_name(exported)["execute_tool run_code"])
    assert found["sandboxio.code"] == "print('***')"
    assert len(found["sandboxio.code_sha256"]) == 64
    exported.clear()
    async with await DriverBackend(host_driver).create(timeout=60) as sandbox:
        await sandbox.run_code("print('private')")
    assert "sandboxio.code" not in attributes(by_name(exported)["execute_tool run_code"])
    assert "private" not in "".join(span.to_json() for span in exported.get_finished_spans())


async def test_a_span_covers_its_operation(
    exported: InMemorySpanExporter, recorded: AsyncSandbox
) -> None:
    await recorded.run(["sleep", "0.3"])
    span = by_name(exported)["execute_tool exec"]
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time >= 0.29e9


async def test_what_is_not_sampled_is_not_rendered(
    recorded: AsyncSandbox, host_driver: Any, no_debug: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> Any:
        raise AssertionError("nobody listens")

    monkeypatch.setattr("sandboxio._observe.record.Record.render", never)
    set_provider(TracerProvider(sampler=ALWAYS_OFF))
    try:
        async with await DriverBackend(host_driver).create(timeout=60) as sandbox:
            await sandbox.run(["true"])
    finally:
        set_provider(None)
    monkeypatch.undo()


def test_without_a_provider_there_is_none() -> None:
    set_provider(None)
    assert otel.provider() is None


def test_every_attribute_name_of_the_library_is_in_one_module() -> None:
    """No other module of core writes a name of the conventions or of ours."""
    from pathlib import Path

    source = Path(str(otel.__file__)).parent
    for path in source.rglob("*.py"):
        if path.name != "otel.py":
            text = path.read_text(encoding="utf-8")
            assert "gen_ai." not in text, path
            assert '"error.type"' not in text, path
            assert '"sandboxio.sandbox' not in text, path


def test_attributes_carry_an_allow_list_and_caps() -> None:
    fields = {
        "routing": {"rule": "eu", "attempts": 2, "candidates": []},
        "policy": {
            "network": {"egress": "deny", "allow": ["example.org"]},
            "network_verified": True,
            "lifetime_s": 60.0,
            "cpu": {"value": 0.5},
            "memory_mb": {"value": 512},
            "processes": None,
            "disk_mb": None,
        },
    }
    assert otel.attributes_of(fields) == {
        "sandboxio.policy.egress": "deny",
        "sandboxio.policy.allow": ["example.org"],
        "sandboxio.policy.network_verified": True,
        "sandboxio.policy.lifetime_s": 60.0,
        "sandboxio.policy.cpu": 0.5,
        "sandboxio.policy.memory_mb": 512,
        "sandboxio.routing.rule": "eu",
        "sandboxio.routing.attempts": 2,
    }


IMPORTS = """
import sys, anyio
from sandboxio.spi import DriverBackend
sys.path.insert(0, {tests!r})
from conftest import host_drivers
async def main():
    with host_drivers() as driver:
        async with await DriverBackend(driver).create(timeout=60) as sandbox:
            await sandbox.run(["true"])
            await sandbox.files.write("a", "b")
anyio.run(main)
print("opentelemetry" in sys.modules)
"""


@pytest.mark.parametrize("variable", ["", "sdk_tracer_provider"])
def test_the_api_is_loaded_only_where_there_may_be_a_provider(variable: str) -> None:
    from pathlib import Path

    tests = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS.format(tests=tests)],
        env={"PATH": "/usr/bin:/bin", otel.PROVIDER_VARIABLE: variable},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(bool(variable))
