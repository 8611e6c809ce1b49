"""Caps as code inside meets them, and what the host says of who was killed by them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxio.errors import ConfigurationError, ProcessLimitExceeded
from sandboxio.models import Resources
from sandboxio.spi import ExitCause
from sandboxio_local import _cgroup
from sandboxio_local._sandbox import LocalSandbox

Run = Callable[..., Awaitable[Any]]
Make = Callable[..., Awaitable[LocalSandbox]]

with_groups = pytest.mark.skipif(
    _cgroup.find() is None, reason="this user can make no control groups here"
)

GREEDY_AT_ONCE = "b = bytearray(2**31)"
GREEDY_SLOWLY = "blocks = []\nwhile True: blocks.append(bytearray(2**20))"


def members_of(sandbox: LocalSandbox) -> list[list[int]]:
    """Return the processes of each of a sandbox's control groups."""
    return [list(map(int, Path(procs).read_text().split())) for procs in sandbox.native.groups]


@with_groups
@pytest.mark.parametrize("code", [GREEDY_AT_ONCE, GREEDY_SLOWLY])
async def test_memory_cap_kills_and_is_blamed(make: Make, run: Run, code: str) -> None:
    sandbox = await make(resources=Resources(memory_mb=128))
    ran = await run(sandbox, "python3", "-c", code)
    assert (ran.code, ran.exit.cause) == (137, ExitCause.OUT_OF_MEMORY)
    assert (await run(sandbox, "echo", "alive")).output == "alive\n"


async def test_memory_cap_stops_whatever_enforces_it(make: Make, run: Run) -> None:
    sandbox = await make(resources=Resources(memory_mb=128))
    ran = await run(sandbox, "python3", "-c", f"{GREEDY_AT_ONCE}\nprint(len(b))")
    assert ran.code != 0
    assert (await run(sandbox, "python3", "-c", "b = bytearray(2**23); print(len(b))")).code == 0


@with_groups
async def test_memory_cap_is_for_all_processes_together(make: Make, run: Run) -> None:
    sandbox = await make(resources=Resources(memory_mb=128))
    hold = "python3 -c 'import time; b = bytearray(60 << 20); time.sleep(2)'"
    ran = await run(sandbox, "sh", "-c", f"{hold} & {hold} & {hold} & wait")
    kills = _cgroup.oom_kills(sandbox.native.events)
    assert ran.code == 0
    assert kills is not None
    assert kills > 0


@with_groups
async def test_a_kill_by_somebody_else_is_not_blamed_on_memory(make: Make, run: Run) -> None:
    sandbox = await make(resources=Resources(memory_mb=128))
    first = await run(sandbox, "sh", "-c", "kill -9 $$")
    assert (first.code, first.exit.cause) == (137, ExitCause.EXITED)
    # A child is killed for want of memory, and its parent says so by an exit code of its own.
    await run(sandbox, "sh", "-c", f"python3 -c '{GREEDY_AT_ONCE}'; exit 3")
    after = await run(sandbox, "sh", "-c", "kill -9 $$")
    assert (after.code, after.exit.cause) == (137, ExitCause.EXITED)


@with_groups
async def test_each_kill_is_blamed_once(make: Make, run: Run) -> None:
    sandbox = await make(resources=Resources(memory_mb=128))
    causes: list[ExitCause] = []

    async def one(*argv: str) -> None:
        causes.append((await run(sandbox, *argv)).exit.cause)

    async with anyio.create_task_group() as group:
        group.start_soon(one, "python3", "-c", GREEDY_AT_ONCE)
        for _ in range(3):
            group.start_soon(one, "sh", "-c", "sleep 1; kill -9 $$")
    assert sorted(cause.value for cause in causes) == sorted(
        [ExitCause.OUT_OF_MEMORY.value, *[ExitCause.EXITED.value] * 3]
    )


async def test_fork_bomb_stays_under_the_cap(make: Make, run: Run) -> None:
    sandbox = await make(resources=Resources(processes=32))
    ran = await run(
        sandbox,
        *("python3", "-c"),
        "import os, time\n"
        "made = 0\n"
        "try:\n"
        "    while made < 1000:\n"
        "        if os.fork() == 0: time.sleep(60); os._exit(0)\n"
        "        made += 1\n"
        "except OSError as error: print(made, error.errno)\n",
    )
    made, number = map(int, ran.output.split())
    assert 20 <= made < 32
    assert number == 11
    with pytest.raises(ProcessLimitExceeded):
        await run(sandbox, "sleep", "0")


async def test_threads_count_as_processes(make: Make, run: Run) -> None:
    sandbox = await make(resources=Resources(processes=32))
    ran = await run(
        sandbox,
        *("python3", "-c"),
        "import threading, time\n"
        "made = 0\n"
        "try:\n"
        "    while made < 1000:\n"
        "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); made += 1\n"
        "except RuntimeError: print(made)\n",
    )
    assert 20 <= int(ran.output) < 32


@pytest.mark.parametrize("path", ["/work", "/tmp", "/dev/shm"])
async def test_full_disk_is_an_error_and_no_kill(make: Make, run: Run, path: str) -> None:
    sandbox = await make(resources=Resources(memory_mb=128, disk_mb=64))
    ran = await run(sandbox, "dd", "if=/dev/zero", f"of={path}/x", "bs=64k")
    assert ran.code == 1
    assert "No space left on device" in ran.output
    assert (await run(sandbox, "python3", "-c", "print('alive')")).output == "alive\n"


async def test_all_disks_full_leave_memory_to_work_with(make: Make, run: Run) -> None:
    sandbox = await make()
    ran = await run(
        sandbox,
        *("sh", "-c"),
        "for d in /work /tmp /dev/shm; do dd if=/dev/zero of=$d/x bs=1M; done 2>&1 | grep -c left",
    )
    assert ran.output == "3\n"
    assert (
        await run(sandbox, "python3", "-c", "b = bytearray(16 << 20); print('alive')")
    ).code == 0


async def test_disk_is_what_the_policy_says(make: Make, run: Run) -> None:
    sandbox = await make(resources=Resources(disk_mb=64))
    ran = await run(
        sandbox,
        *("python3", "-c"),
        "import os\n"
        "sizes = [os.statvfs(p) for p in ('/work', '/tmp', '/dev/shm')]\n"
        "print(sum(s.f_blocks * s.f_frsize for s in sizes) >> 20)",
    )
    assert ran.output == "64\n"
    assert sandbox.policy.disk_mb is not None
    assert sandbox.policy.disk_mb.value == 64


@with_groups
async def test_files_never_use_up_the_memory_of_processes(make: Make) -> None:
    sandbox = await make(resources=Resources(memory_mb=128, disk_mb=1024))
    policy = sandbox.policy
    assert policy.disk_mb is not None
    assert policy.disk_mb.value == 96
    assert any("smaller than asked for" in note for note in policy.notes)


@with_groups
async def test_caps_are_in_the_control_groups(make: Make) -> None:
    sandbox = await make(resources=Resources(cpu=0.5, memory_mb=96, processes=20))
    policy = sandbox.policy
    assert policy.cpu is not None
    assert policy.memory_mb is not None
    assert policy.processes is not None
    assert (policy.cpu.value, policy.memory_mb.value, policy.processes.value) == (0.5, 96, 20)
    for members in members_of(sandbox):
        assert sandbox.native.init in members
        assert os.getpid() not in members


@pytest.mark.skipif(_cgroup.find() is not None, reason="control groups can be made here")
async def test_caps_without_control_groups_say_so(make: Make, run: Run) -> None:
    sandbox = await make(resources=Resources(cpu=1, memory_mb=128))
    assert sandbox.policy.memory_mb is not None
    assert "each process" in sandbox.policy.memory_mb.mechanism
    assert any("each process" in note for note in sandbox.policy.notes)
    cores = "import os; print(len(os.sched_getaffinity(0)))"
    assert (await run(sandbox, "python3", "-c", cores)).output == "1\n"
    widen = "import os; os.sched_setaffinity(0, range(64))"
    assert (await run(sandbox, "python3", "-c", widen)).code != 0
    anonymous = "import os; os.memfd_create('x')"
    assert (await run(sandbox, "python3", "-c", anonymous)).code != 0


async def test_too_little_memory_is_refused(make: Make) -> None:
    with pytest.raises(ConfigurationError, match="memory_mb"):
        await make(resources=Resources(memory_mb=16))


async def test_core_dumps_are_off_and_files_are_bounded(make: Make, run: Run) -> None:
    sandbox = await make()
    limits = (await run(sandbox, "cat", "/proc/self/limits")).output
    rows = {line[:26].strip(): line[26:].split() for line in limits.splitlines()}
    assert rows["Max core file size"][:2] == ["0", "0"]
    assert rows["Max realtime priority"][:2] == ["0", "0"]
    assert int(rows["Max open files"][1]) <= 65536
