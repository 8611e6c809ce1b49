"""Virtual time: what happens, happens in the same order and at the same second in every run."""

from __future__ import annotations

import threading

import anyio
import pytest
from anyio.lowlevel import checkpoint

from sandboxio import Resources
from sandboxio.errors import CreateTimeout, ExecutionTimeout, SandboxGone
from sandboxio_testing import FakeBackend

BOUND = 20.0
"""Seconds of the wall clock after which a test has lost its way."""


async def test_hour_of_sleep_takes_no_hour(sbx_fake: FakeBackend) -> None:
    sandbox = await sbx_fake.create(timeout=7200)
    with anyio.fail_after(BOUND):
        result = await sandbox.run(["sleep", "3600"])
    assert result.meter is not None
    assert result.meter.duration_ms == 3_600_000
    assert sbx_fake.clock.current_time() == 3600


async def test_sleeps_end_in_the_order_of_time(sbx_fake: FakeBackend) -> None:
    ended: list[tuple[int, float]] = []

    async def sleep(seconds: int) -> None:
        await sbx_fake.sandbox.run(["sleep", str(seconds)])
        ended.append((seconds, sbx_fake.clock.current_time()))

    async with anyio.create_task_group() as group:
        for seconds in (30, 10, 20):
            group.start_soon(sleep, seconds)
    assert ended == [(10, 10.0), (20, 20.0), (30, 30.0)]


async def test_deadline_fires_at_its_second_and_output_until_then_is_kept(
    sbx_fake: FakeBackend,
) -> None:
    with pytest.raises(ExecutionTimeout) as caught:
        await sbx_fake.sandbox.run("while :; do echo tick; sleep 1; done", timeout=3.5)
    assert caught.value.stdout == "tick\n" * 4
    assert caught.value.kill_confirmed
    assert sbx_fake.clock.current_time() == 3.5
    assert sbx_fake.processes(sbx_fake.sandbox.id) == {}


async def test_command_that_ends_at_its_deadline_is_in_time(sbx_fake: FakeBackend) -> None:
    assert (await sbx_fake.sandbox.run("sleep 5; exit 7", timeout=5)).exit_code == 7


async def test_loop_without_a_pause_reaches_its_deadline(sbx_fake: FakeBackend) -> None:
    with anyio.fail_after(BOUND), pytest.raises(ExecutionTimeout):
        await sbx_fake.sandbox.run("while :; do :; done", timeout=200)
    with anyio.fail_after(BOUND), pytest.raises(ExecutionTimeout):
        await (await sbx_fake.create(timeout=400)).run_code("while True: pass", timeout=200)


async def test_lifetime_ends_the_sandbox_and_what_runs_in_it(sbx_fake: FakeBackend) -> None:
    sandbox = await sbx_fake.create(timeout=60)
    with pytest.raises(SandboxGone):
        await sandbox.run(["sleep", "100"])
    assert sbx_fake.clock.current_time() == 60
    assert sandbox.id not in sbx_fake.live_sandboxes


async def test_slow_create_meets_its_deadline_and_leaves_nothing(sbx_fake: FakeBackend) -> None:
    sbx_fake.simulate(create_takes=3600)
    with pytest.raises(CreateTimeout):
        await sbx_fake.create(timeout=300)
    assert sbx_fake.clock.current_time() == 300
    assert sbx_fake.live_sandboxes == ()


async def test_held_clock_lets_nothing_time_out(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox
    with sbx_fake.clock.held(), anyio.move_on_after(0.05) as scope:
        await sandbox.run(["sleep", "100"], timeout=1)
    assert scope.cancelled_caught
    assert sbx_fake.clock.current_time() == 0
    assert sbx_fake.processes(sandbox.id) == {}


async def test_advance_lets_everything_happen_that_is_due(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox
    await sandbox.run("(while :; do echo x >> beats; sleep 1; done) &")
    await sbx_fake.clock.advance(4.5)
    assert sbx_fake.clock.current_time() == 4.5
    assert (await sandbox.files.read("beats")).count(b"x") == 5


async def test_time_stands_still_while_nobody_waits_in_the_fake(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox
    await sandbox.run("sleep 10 &")
    for _ in range(200):
        await checkpoint()
    assert sbx_fake.clock.current_time() == 0
    assert sbx_fake.processes(sandbox.id)


async def test_idle_consumer_does_not_keep_a_command_alive(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox
    async with sandbox.stream("while :; do sleep 1; done", timeout=5) as process:
        await sandbox.run(["sleep", "20"])
        assert sbx_fake.processes(sandbox.id) == {}
        with pytest.raises(ExecutionTimeout):
            await process.wait()


async def test_two_hundred_commands_at_once_take_as_long_as_one(sbx_fake: FakeBackend) -> None:
    sandbox = await sbx_fake.create(resources=Resources(processes=250))
    async with anyio.create_task_group() as group:
        for _ in range(200):
            group.start_soon(sandbox.run, ["sleep", "2"])
    assert sbx_fake.clock.current_time() == 2


def test_one_fake_serves_event_loops_in_several_threads(sbx_fake: FakeBackend) -> None:
    took: list[float] = []

    async def work(seconds: int) -> None:
        async with await sbx_fake.create(timeout=10_000) as sandbox:
            with anyio.fail_after(BOUND):
                result = await sandbox.run(["sleep", str(seconds)])
        assert result.meter is not None
        # One thread may move time on while another is about to start its command.
        took.append(result.meter.duration_ms / 1000 - seconds)

    def thread(backend: str, seconds: int) -> None:
        anyio.run(work, seconds, backend=backend)

    threads = [
        threading.Thread(target=thread, args=(backend, seconds))
        for seconds, backend in enumerate(("asyncio", "trio", "asyncio", "trio"), 5)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=2 * BOUND)
    assert not any(one.is_alive() for one in threads)
    assert len(took) == 4
    assert all(0 <= more < 30 for more in took)
