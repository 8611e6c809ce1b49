"""The sync facade in this process: it delegates, and its thread goes when it is closed."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

import sandboxio
from sandboxio import (
    PIPE,
    CapabilityNotSupported,
    ConfigurationError,
    ConnectError,
    ExecutionError,
    ExecutionTimeout,
    PathNotFound,
    ProviderError,
    Sandbox,
    SandboxError,
    SandboxGone,
    connect_sync,
    create_sync,
)
from sandboxio.audit import AuditConfig, AuditEvent
from sandboxio.spi import DriverBackend

BOUND = 30.0
"""Seconds for what ends at once."""

Portals = Callable[[], list[threading.Thread]]


def engine_of(sandbox: Sandbox) -> Any:
    """What the engine holds of a sandbox."""
    return cast(Any, sandbox)._sandbox._live


@pytest.fixture
def sync_sandbox(host: str) -> Iterator[Sandbox]:
    """A sandbox of this host."""
    with create_sync(host, timeout=100) as sandbox:
        yield sandbox


def test_the_whole_surface(host: str, portals: Portals, tmp_path: Path) -> None:
    with create_sync(host, timeout=100, env={"A": "b"}, metadata={"tenant_id": "t"}) as sandbox:
        assert len(portals()) == 1
        assert sandbox.run('echo "$A"', cwd="/").stdout == "b\n"
        assert sandbox.run(["cat"], stdin="typed", env={"C": "d"}, timeout=10).stdout == "typed"
        assert sandbox.run_code("print(6 * 7)").stdout == "42\n"
        files = sandbox.files
        files.mkdir("d/e", parents=True)
        files.write("d/a", "text")
        assert files.read("d/a") == b"text"
        assert files.stat("d/a").size == 4
        (tmp_path / "up").write_bytes(b"bytes")
        files.upload(tmp_path / "up", "d/b")
        files.download("d/b", tmp_path / "down")
        assert (tmp_path / "down").read_bytes() == b"bytes"
        assert [info.path.rpartition("/")[2] for info in files.ls("d")] == ["a", "b", "e"]
        files.remove("d")
        assert files.ls() == []
        assert sandbox.id
        assert sandbox.backend == "host"
        assert sandbox.isolation is sandboxio.IsolationTier.CONTAINER
        assert sandbox.policy.isolation is sandbox.isolation
        assert sandboxio.Capability.STREAMING in sandbox.capabilities
        assert sandbox.native is not None
        assert sandbox.route is None
        assert repr(sandbox).startswith(f"<Sandbox host:{sandbox.id} container running")
        assert repr(files) == f"<Files of host:{sandbox.id}>"
    assert portals() == []


def test_streaming(sync_sandbox: Sandbox) -> None:
    with sync_sandbox.stream("cat; echo err >&2; exit 3", stdin=PIPE) as process:
        assert process.returncode is None
        process.send("one ")
        process.send(b"two")
        process.send_eof()
        data = {"stdout": b"", "stderr": b""}
        for chunk in process:
            data[chunk.stream] += chunk.data
        result = process.wait()
        assert repr(process) == f"<Process host:{sync_sandbox.id} exited 3>"
    assert data == {"stdout": b"one two", "stderr": b"err\n"}
    assert (result.exit_code, result.streamed, process.returncode) == (3, True, 3)


def test_a_stream_that_is_left_early_is_killed(sync_sandbox: Sandbox) -> None:
    with sync_sandbox.stream("while :; do echo x; done") as process:
        for _ in process:
            break
    assert process.returncode == 137
    with sync_sandbox.stream(["sleep", "100"]) as process:
        process.signal(15)
        assert process.wait().exit_code == 128 + 15
    with sync_sandbox.stream(["sleep", "100"]) as process:
        process.kill()
    assert process.returncode == 137


def test_the_block_s_own_error_comes_through_a_stream(sync_sandbox: Sandbox) -> None:
    def block() -> None:
        with sync_sandbox.stream(["sleep", "100"]):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    assert sync_sandbox.run(["true"]).ok


def test_errors_are_the_same_classes(sync_sandbox: Sandbox) -> None:
    with pytest.raises(ExecutionTimeout) as caught:
        sync_sandbox.run("echo partial; sleep 100", timeout=2)
    assert caught.value.stdout == "partial\n"
    with pytest.raises(PathNotFound):
        sync_sandbox.files.read("nothing")
    with pytest.raises(ConfigurationError):
        sync_sandbox.run([])
    with pytest.raises(CapabilityNotSupported):
        sync_sandbox.run_code("1", context_id="a")
    with pytest.raises(ExecutionError):
        sync_sandbox.run(["false"]).raise_for_status()


def test_an_error_keeps_its_cause(sync_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(self: Any, command: Any) -> Any:
        raise OSError("the engine said no")

    with monkeypatch.context() as patched:
        patched.setattr("sandboxio.guest.sandbox.GuestSandbox.start", start)
        with pytest.raises(ProviderError) as caught:
            sync_sandbox.run(["true"])
    assert isinstance(caught.value.__cause__, OSError)
    assert sync_sandbox.run(["true"]).ok


def test_connect_lets_go_and_kill_ends_for_everybody(
    sync_sandbox: Sandbox, host: str, portals: Portals
) -> None:
    with connect_sync(sync_sandbox.id, backend=host) as attached:
        assert attached.id == sync_sandbox.id
        assert attached.run(["echo", "hello"]).stdout == "hello\n"
        assert len(portals()) == 1
    assert portals() == []
    assert sync_sandbox.run(["true"]).ok
    with connect_sync(sync_sandbox.id, backend=host) as attached:
        attached.kill()
    with pytest.raises(SandboxGone):
        sync_sandbox.run(["true"])


def test_connect_to_nothing(host: str, portals: Portals) -> None:
    with pytest.raises(ConnectError):
        connect_sync("no-such-sandbox", backend=host)
    assert portals() == []


def test_after_the_block_everything_says_gone(host: str) -> None:
    with create_sync(host, timeout=100) as sandbox:
        stream = sandbox.stream(["true"])
    for call in (
        lambda: sandbox.run(["true"]),
        lambda: sandbox.run_code("1"),
        lambda: sandbox.stream(["true"]),
        lambda: sandbox.files.ls(),
        lambda: sandbox.__enter__(),
        lambda: stream.__enter__(),
        lambda: stream.wait(),
        lambda: next(iter(stream)),
    ):
        with pytest.raises(SandboxGone):
            call()
    sandbox.kill()
    sandbox.close()
    assert sandbox.id
    assert "killed" in repr(sandbox)


def test_without_a_block(host: str, portals: Portals) -> None:
    sandbox = create_sync(host, timeout=100)
    assert sandbox.run(["true"]).ok
    sandbox.kill()
    sandbox.kill()
    with pytest.raises(SandboxGone):
        sandbox.run(["true"])
    assert len(portals()) == 1, "until it is closed"
    sandbox.close()
    assert portals() == []
    sandbox.close()


def test_close_ends_the_sandbox_and_the_calls_under_way(host: str, host_driver: Any) -> None:
    sandbox = create_sync(host, timeout=100)
    errors: list[BaseException] = []
    started = threading.Event()

    def call() -> None:
        try:
            with sandbox.stream("echo started; sleep 100") as process:
                next(iter(process))
                started.set()
                process.wait()
        except SandboxError as error:
            errors.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    assert started.wait(BOUND)
    sandbox.close()
    caller.join(BOUND)
    assert not caller.is_alive()
    assert [type(error) for error in errors] == [SandboxGone]
    assert host_driver.live == {}


def test_a_create_that_fails_leaves_no_thread(host: str, portals: Portals) -> None:
    for wrong in (
        lambda: create_sync(host, timeout=0),
        lambda: create_sync("nosuchbackend://"),
        lambda: create_sync("not a dsn"),
    ):
        with pytest.raises(ConfigurationError):
            wrong()
    assert portals() == []


def test_a_teardown_that_fails_is_told_and_leaves_no_thread(
    host: str, host_driver: Any, portals: Portals, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = create_sync(host, timeout=100)

    async def terminate(self: Any) -> None:
        raise OSError("the engine said no")

    with monkeypatch.context() as patched:
        patched.setattr(type(engine_of(sandbox).driver), "terminate", terminate)
        with pytest.raises(ConnectError) as caught:
            sandbox.close()
    assert isinstance(caught.value.__cause__, OSError)
    assert portals() == []
    sandbox.close()
    for program in list(host_driver.live.values()):
        program.close()
    host_driver.live.clear()


def test_the_block_s_own_error_comes_before_that_of_the_teardown(
    host: str, host_driver: Any, portals: Portals, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = create_sync(host, timeout=100)

    async def terminate(self: Any) -> None:
        raise OSError("the engine said no")

    def block() -> None:
        with sandbox:
            raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(type(engine_of(sandbox).driver), "terminate", terminate)
        with pytest.warns(sandboxio.OrphanedSandboxWarning), pytest.raises(ZeroDivisionError):
            block()
    for program in list(host_driver.live.values()):
        program.close()
    host_driver.live.clear()


async def test_inside_a_running_loop(host: str, anyio_backend: object) -> None:
    """A call blocks the loop that it is made in, and works: the sandbox has a loop of its own."""
    with create_sync(host, timeout=100) as sandbox:
        assert sandbox.run(["echo", "hello"]).stdout == "hello\n"
        with sandbox.stream(["seq", "3"]) as process:
            assert b"".join(chunk.data for chunk in process) == b"1\n2\n3\n"
        await anyio.lowlevel.checkpoint()
        done = await anyio.to_thread.run_sync(lambda: sandbox.run(["echo", "in a worker"]))
        assert done.stdout == "in a worker\n"


async def test_two_loops_share_nothing(host: str) -> None:
    """The async API of the same process, beside the facade."""
    async with await sandboxio.create(host, timeout=100) as one:
        with create_sync(host, timeout=100) as other:
            assert other.run(["echo", "2"]).stdout == "2\n"
            assert (await one.run(["echo", "1"])).stdout == "1\n"


def test_a_call_from_the_sandbox_s_own_loop_is_refused(host_driver: Any) -> None:
    """A sink of the audit that calls the facade would wait for itself for ever."""
    held: list[Sandbox] = []
    refused: list[BaseException] = []

    class Sink:
        async def emit(self, event: AuditEvent) -> None:
            if event.event == "exec":
                try:
                    held[0].run(["true"])
                except ConfigurationError as error:
                    refused.append(error)

    sandboxio.register(
        "hostwithsink", lambda: DriverBackend(host_driver, audit=AuditConfig(sinks=(Sink(),)))
    )
    with create_sync("hostwithsink://", timeout=100) as sandbox:
        held.append(sandbox)
        assert sandbox.run(["true"]).ok
    assert len(refused) == 1
    assert "own event loop" in str(refused[0])


def test_a_sandbox_that_nobody_holds_is_ended(
    host: str, host_driver: Any, portals: Portals
) -> None:
    sandbox = create_sync(host, timeout=100)
    files = sandbox.files
    del sandbox
    gc.collect()
    assert files.ls() == [], "whoever holds a part of it holds it"
    (thread,) = portals()
    del files
    gc.collect()
    thread.join(BOUND)
    assert not thread.is_alive()
    assert host_driver.live == {}


def test_spans_nest_under_the_span_of_the_calling_thread(host: str) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace._TRACER_PROVIDER_SET_ONCE._done = False
    trace._TRACER_PROVIDER = None
    trace.set_tracer_provider(provider)
    try:
        with (
            create_sync(host, timeout=100) as sandbox,
            trace.get_tracer("agent").start_as_current_span("invoke_agent") as outer,
        ):
            sandbox.run(["true"])
            with sandbox.stream(["true"]) as process:
                process.wait()
            sandbox.files.ls()
    finally:
        trace._TRACER_PROVIDER_SET_ONCE._done = False
        trace._TRACER_PROVIDER = None
    parents = {span.name: span.parent for span in exporter.get_finished_spans()}
    for tool in ("exec", "stream", "file_list"):
        parent = parents[f"execute_tool {tool}"]
        assert parent is not None
        assert parent.span_id == outer.get_span_context().span_id
    assert parents["execute_tool create"] is None
