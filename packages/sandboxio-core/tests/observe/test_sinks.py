"""Where events go: each sink, and what happens when one fails."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxio import (
    AsyncSandbox,
    AuditSinkError,
    AuditSinkWarning,
    ConfigurationError,
    IsolationTier,
    PathNotFound,
)
from sandboxio.audit import AuditConfig, AuditEvent, FileSink, LoggingSink, NoopSink, QueueSink
from sandboxio.spi import DriverBackend

BOUND = 30.0
"""Seconds for what ends at once."""


def an_event(number: int = 0, *, padding: int = 0) -> AuditEvent:
    return AuditEvent(
        ts=datetime(2026, 1, 1, tzinfo=UTC),
        event="exec",
        sandbox_id="sbx-1",
        backend="local",
        isolation=IsolationTier.CONTAINER,
        tenant_id=None,
        session_id=None,
        code_sha256="",
        argv=("echo", str(number), "x" * padding),
        exit_code=0,
        duration_ms=1,
        bytes_in=0,
        bytes_out=0,
        network_denials=0,
    )


class Broken:
    """A sink that cannot record."""

    def __init__(self) -> None:
        self.works = False

    async def emit(self, event: AuditEvent) -> None:
        if not self.works:
            raise OSError("the disk is full, says hunter2!")


class Stuck:
    """A sink that never answers."""

    async def emit(self, event: AuditEvent) -> None:
        await anyio.sleep_forever()


# ----- logging


def test_logging_sink_logs_one_json_line_and_the_dictionary(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("tests.audit")
    sink = LoggingSink(logger, logging.WARNING)
    with caplog.at_level(logging.WARNING, logger.name):
        anyio.run(sink.emit, an_event())
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("tests.audit", logging.WARNING)
    assert json.loads(record.getMessage()) == an_event().as_dict()
    assert record.__dict__["audit"] == an_event().as_dict()
    assert logger.handlers == []


def test_logging_sink_takes_info_when_it_is_told_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        anyio.run(LoggingSink(logging.getLogger("tests.audit")).emit, an_event())
    assert [record.levelno for record in caplog.records] == [logging.INFO]


# ----- files


async def test_file_sink_appends_lines_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    await FileSink(path).emit(an_event(1))
    await FileSink(str(path)).emit(an_event(2))
    lines = path.read_text().splitlines()
    assert [json.loads(line)["argv"][1] for line in lines] == ["1", "2"]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_file_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        await FileSink(tmp_path / "no such folder" / "audit.jsonl").emit(an_event())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let them all wait for each other, on a busy machine too."""
    monkeypatch.setattr("sandboxio.audit._file.LOCK_BOUND", BOUND)


@pytest.mark.parametrize("padding", [0, 3 * 4096])
@pytest.mark.usefixtures("patient")
async def test_lines_of_many_tasks_are_never_torn(tmp_path: Path, padding: int) -> None:
    sink = FileSink(tmp_path / "audit.jsonl")
    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(sink.emit, an_event(number, padding=padding))
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert sorted(int(json.loads(line)["argv"][1]) for line in lines) == list(range(100))


@pytest.mark.usefixtures("patient")
def test_lines_of_many_threads_with_a_loop_each_are_never_torn(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "audit.jsonl")

    async def write(first: int) -> None:
        for number in range(first, first + 25):
            await sink.emit(an_event(number, padding=5000))

    threads = [threading.Thread(target=anyio.run, args=(write, 25 * n)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert sorted(int(json.loads(line)["argv"][1]) for line in lines) == list(range(200))


WRITER = """
import sys, anyio
sys.path.insert(0, {tests!r})
from test_sinks import FileSink, an_event
async def main():
    sink = FileSink({path!r})
    print("ready", flush=True)
    number = 0
    while number != {count}:
        await sink.emit(an_event(number, padding={padding}))
        number += 1
anyio.run(main)
"""


def a_writer(path: Path, *, count: int, padding: int) -> subprocess.Popen[str]:
    code = WRITER.format(
        tests=str(Path(__file__).parent), path=str(path), count=count, padding=padding
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_lines_of_many_processes_are_never_torn(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writers = [a_writer(path, count=60, padding=9000) for _ in range(4)]
    for writer in writers:
        with writer:
            assert writer.wait(BOUND) == 0
    numbers = [int(json.loads(line)["argv"][1]) for line in path.read_text().splitlines()]
    assert sorted(numbers) == sorted(4 * list(range(60)))


@pytest.mark.slow
def test_a_killed_writer_leaves_no_torn_line(tmp_path: Path) -> None:
    """Lines so long that about every second kill hits in the middle of one (measured)."""
    path = tmp_path / "audit.jsonl"
    for _ in range(4):
        with a_writer(path, count=-1, padding=5_000_000) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            # Until it is in the midst of it; however much it has written by then.
            at_least = (path.stat().st_size if path.exists() else 0) + 3_000_000
            while (path.stat().st_size if path.exists() else 0) < at_least:
                assert writer.poll() is None
            writer.send_signal(signal.SIGKILL)
            writer.wait(BOUND)
    anyio.run(FileSink(path).emit, an_event(77))
    data = path.read_bytes()
    assert data.endswith(b"\n")
    values = [json.loads(line) for line in data.splitlines()]
    assert values[-1]["argv"][1] == "77"
    assert all(value["backend"] == "local" for value in values)


async def test_the_remains_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    await FileSink(path).emit(an_event(1))
    for remains in (b"{", b'{"ts": "2026', an_event(5, padding=200_000).as_line().encode()[:-1]):
        with path.open("ab") as file:
            file.write(remains)
        await FileSink(path).emit(an_event(2))
    numbers = [int(json.loads(line)["argv"][1]) for line in path.read_text().splitlines()]
    assert numbers == [1, 2, 2, 2]


async def test_what_others_wrote_without_a_last_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "mixed.log"
    path.write_text("a line of another program\nand its last")
    await FileSink(path).emit(an_event(1))
    lines = path.read_text().splitlines()
    assert lines[:2] == ["a line of another program", "and its last"]
    assert len(lines) == 3


async def test_a_line_that_does_not_fit_is_taken_back_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    sink = FileSink(path)
    await sink.emit(an_event(1))
    write = os.write
    with monkeypatch.context() as patched:
        # A disk that is full in the middle of a line; a real one of that size is not at hand.
        patched.setattr(os, "write", lambda fd, data: write(fd, data[: len(data) // 2]))
        with pytest.raises(OSError):
            await sink.emit(an_event(2))
    await sink.emit(an_event(3))
    numbers = [int(json.loads(line)["argv"][1]) for line in path.read_text().splitlines()]
    assert numbers == [1, 3]


async def test_a_writer_that_is_stopped_in_the_middle_is_a_failure_and_no_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr("sandboxio.audit._file.LOCK_BOUND", 0.1)
    path = tmp_path / "audit.jsonl"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with anyio.fail_after(BOUND), pytest.raises(BlockingIOError):
            await FileSink(path).emit(an_event())
    await FileSink(path).emit(an_event())


async def test_a_pipe_can_be_the_file(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        await FileSink(path).emit(an_event(8))
        assert json.loads(os.read(reader, 1 << 16))["argv"][1] == "8"
    finally:
        os.close(reader)


# ----- the queue


async def test_queue_sink_hands_events_on_in_order(collected: Any) -> None:
    sink = QueueSink(collected)
    async with anyio.create_task_group() as group:
        group.start_soon(sink.drain)
        for number in range(20):
            await sink.emit(an_event(number))
            await anyio.lowlevel.checkpoint()
        sink.close()
    assert [event.argv[1] for event in collected.events] == [str(n) for n in range(20)]


async def test_queue_sink_drops_the_oldest_counts_and_warns(collected: Any) -> None:
    sink = QueueSink(collected, maxlen=3)
    for number in range(3):
        await sink.emit(an_event(number))
    for number in range(3, 5):
        with pytest.warns(AuditSinkWarning, match="dropped"):
            await sink.emit(an_event(number))
    assert sink.dropped == 2
    sink.close()
    await sink.drain()
    assert [event.argv[1] for event in collected.events] == ["2", "3", "4"]


async def test_cancelling_the_drain_loses_no_event(collected: Any) -> None:
    sink = QueueSink(Stuck())
    for number in range(3):
        await sink.emit(an_event(number))
    with anyio.move_on_after(0.2):
        await sink.drain()
    sink._target = collected
    sink.close()
    await sink.drain()
    assert [event.argv[1] for event in collected.events] == ["0", "1", "2"]


async def test_an_event_that_the_target_refuses_is_warned_of_and_the_rest_goes_on(
    collected: Any,
) -> None:
    class Picky:
        async def emit(self, event: AuditEvent) -> None:
            if event.argv == an_event(1).argv:
                raise ValueError("not this one")
            await collected.emit(event)

    sink = QueueSink(Picky())
    for number in range(3):
        await sink.emit(an_event(number))
    sink.close()
    with pytest.warns(AuditSinkWarning, match="Picky refused an event: ValueError"):
        await sink.drain()
    assert [event.argv[1] for event in collected.events] == ["0", "2"]
    assert sink.dropped == 1


async def test_a_target_that_hangs_does_not_stop_the_drain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sandboxio.audit._queue.DELIVERY_BOUND", 0.1)
    sink = QueueSink(Stuck())
    await sink.emit(an_event())
    sink.close()
    with anyio.fail_after(BOUND), pytest.warns(AuditSinkWarning, match="within 0.1 s"):
        await sink.drain()


def test_events_of_other_threads_wake_the_drain(collected: Any) -> None:
    sink = QueueSink(collected)
    arrived = threading.Event()

    async def host() -> None:
        with anyio.fail_after(BOUND):
            async with anyio.create_task_group() as group:
                group.start_soon(sink.drain)
                await anyio.wait_all_tasks_blocked()
                others = [threading.Thread(target=anyio.run, args=(emit, n)) for n in range(8)]
                for other in others:
                    other.start()
                while len(collected.events) < 8 * 20:  # noqa: ASYNC110 - what is waited for is the sink
                    await anyio.sleep(0.01)
                arrived.set()
                sink.close()

    async def emit(first: int) -> None:
        for number in range(20):
            await sink.emit(an_event(100 * first + number))

    anyio.run(host)
    assert arrived.is_set()
    expected = sorted(str(100 * first + number) for first in range(8) for number in range(20))
    assert sorted(event.argv[1] for event in collected.events) == expected


async def test_a_queue_is_drained_once_at_a_time(collected: Any) -> None:
    sink = QueueSink(collected)
    async with anyio.create_task_group() as group:
        group.start_soon(sink.drain)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ConfigurationError, match="already"):
            await sink.drain()
        sink.close()


def test_a_queue_without_room_is_refused(collected: Any) -> None:
    with pytest.raises(ConfigurationError):
        QueueSink(collected, maxlen=0)


# ----- failures


def failing_backend(host_driver: Any, mode: Any, *sinks: Any) -> DriverBackend:
    return DriverBackend(host_driver, audit=AuditConfig(sinks=sinks, on_sink_failure=mode))


async def test_a_failing_sink_is_warned_of_and_the_operation_goes_on(
    host_driver: Any, collected: Any
) -> None:
    broken = Broken()
    broken.works = True
    backend = failing_backend(host_driver, "warn", broken, collected)
    async with await backend.create(timeout=60, secrets={"S": "hunter2!"}) as sandbox:
        broken.works = False
        with pytest.warns(AuditSinkWarning, match="Broken failed") as caught:
            assert (await sandbox.run(["echo", "done"])).stdout == "done\n"
        broken.works = True
    assert "hunter2!" not in str(caught[0].message)
    assert [event.event for event in collected.events] == ["create", "exec", "kill"]


async def test_an_operation_that_is_not_recorded_has_failed_if_so_configured(
    host_driver: Any, collected: Any
) -> None:
    broken = Broken()
    broken.works = True
    backend = failing_backend(host_driver, "fail", broken, collected)
    async with await backend.create(timeout=60) as sandbox:
        broken.works = False
        with pytest.raises(AuditSinkError, match="Broken failed") as caught:
            await sandbox.run(["true"])
        assert caught.value.code == "SBX_E1601"
        assert isinstance(caught.value.__cause__, OSError)
        with pytest.raises(AuditSinkError):
            async with sandbox.stream(["true"]) as process:
                await process.wait()
        with pytest.raises(AuditSinkError):
            await sandbox.files.write("a", "b")
        broken.works = True
        assert await sandbox.files.read("a") == b"b"


async def test_a_create_that_is_not_recorded_leaves_no_sandbox(host_driver: Any) -> None:
    backend = failing_backend(host_driver, "fail", Broken())
    with pytest.warns(AuditSinkWarning), pytest.raises(AuditSinkError):
        await backend.create(timeout=60)
    assert host_driver.live == {}
    assert backend.open_sandboxes == frozenset()


async def test_a_kill_that_is_not_recorded_has_killed_all_the_same(host_driver: Any) -> None:
    broken = Broken()
    broken.works = True
    sandbox = await failing_backend(host_driver, "fail", broken).create(timeout=60)
    broken.works = False
    with pytest.raises(AuditSinkError):
        await sandbox.kill()
    assert host_driver.live == {}
    await sandbox.kill()


@pytest.mark.parametrize("mode", ["warn", "fail"])
async def test_the_operation_s_own_error_is_the_one_that_is_raised(
    host_driver: Any, mode: str
) -> None:
    broken = Broken()
    broken.works = True
    async with await failing_backend(host_driver, mode, broken).create(timeout=60) as sandbox:
        broken.works = False
        with pytest.warns(AuditSinkWarning), pytest.raises(PathNotFound):
            await sandbox.files.read("nothing here")
        broken.works = True


async def test_the_block_s_own_error_survives_a_kill_that_is_not_recorded(
    host_driver: Any,
) -> None:
    broken = Broken()
    broken.works = True
    sandbox = await failing_backend(host_driver, "fail", broken).create(timeout=60)

    async def block() -> None:
        async with sandbox:
            broken.works = False
            raise ZeroDivisionError

    with pytest.warns(AuditSinkWarning), pytest.raises(ZeroDivisionError):
        await block()
    assert host_driver.live == {}


@pytest.mark.parametrize("mode", ["warn", "fail"])
async def test_a_sink_that_hangs_is_given_up(
    host_driver: Any, collected: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_AUDIT_TIMEOUT", "0.1")
    stuck = Stuck()
    backend = failing_backend(host_driver, mode, stuck, collected)
    with anyio.fail_after(BOUND):
        if mode == "fail":
            with pytest.warns(AuditSinkWarning), pytest.raises(AuditSinkError, match=r"0\.1 s"):
                await backend.create(timeout=60)
        else:
            with pytest.warns(AuditSinkWarning, match=r"Stuck took longer than 0\.1 s"):
                async with await backend.create(timeout=60):
                    pass
    # One that hangs keeps the others from nothing.
    assert [event.event for event in collected.events] == ["create", "kill"]


async def test_a_cancelled_operation_reaches_a_slow_sink_whole(host_driver: Any) -> None:
    class Slow:
        def __init__(self) -> None:
            self.taken: list[str] = []

        async def emit(self, event: AuditEvent) -> None:
            await anyio.sleep(0.1)
            self.taken.append(f"{event.event} {event.outcome}")

    slow = Slow()
    async with await failing_backend(host_driver, "fail", slow).create(timeout=60) as sandbox:
        with anyio.move_on_after(0.2):
            await sandbox.run(["sleep", "100"])
    assert slow.taken == ["create ok", "exec cancelled", "kill ok"]


@pytest.mark.parametrize("value", ["0", "-1", "soon", "inf"])
async def test_a_timeout_that_is_none_is_refused(
    recorded: AsyncSandbox, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SBX_AUDIT_TIMEOUT", value)
    with pytest.raises(ConfigurationError, match="SBX_AUDIT_TIMEOUT"):
        await recorded.run(["true"])
    monkeypatch.delenv("SBX_AUDIT_TIMEOUT")


async def test_nothing_is_rendered_hashed_or_masked_when_nobody_listens(
    host_driver: Any, no_debug: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> Any:
        raise AssertionError("nobody listens")

    monkeypatch.setattr("sandboxio._observe.record.Record.render", never)
    monkeypatch.setattr("hashlib.sha256", never)
    monkeypatch.setattr("sandboxio._observe.redaction.Redactor.text", never)
    backend = failing_backend(host_driver, "warn", NoopSink())
    async with await backend.create(timeout=60, secrets={"S": "hunter2!"}) as sandbox:
        await sandbox.run(["true"], env={"API_KEY": "0123456789"})
        await sandbox.run_code("print(1)")
        await sandbox.files.write("a", "b")


def test_warnings_of_sinks_can_be_silenced_by_their_class() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", AuditSinkWarning)
        anyio.run(overflow)
    assert caught == []


async def overflow() -> None:
    sink = QueueSink(NoopSink(), maxlen=1)
    await sink.emit(an_event())
    await sink.emit(an_event())


@pytest.mark.parametrize(
    "make",
    [
        lambda: FileSink("/tmp/" + "x" * 300),
        lambda: LoggingSink(logging.getLogger("a" * 300)),
        lambda: QueueSink(NoopSink()),
        an_event,
    ],
)
def test_reprs_are_short(make: Callable[[], object]) -> None:
    assert len(repr(make())) < 200
