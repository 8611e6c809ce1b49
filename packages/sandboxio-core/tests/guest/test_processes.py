"""The processes of commands: which of them end, when, and that nothing else does."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxio.errors import ExecutionTimeout, SandboxGone
from sandboxio.protocols import AsyncSandbox, Process

Gone = Callable[[int], Awaitable[None]]

BOUND = 30
"""Seconds for what takes a fraction of one; the machine may be busy."""


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


async def lines(process: Process, count: int) -> list[str]:
    """Read until there are that many lines."""
    text = ""
    with anyio.fail_after(BOUND):
        async for chunk in process:
            text += chunk.data.decode()
            if text.count("\n") >= count:
                return text.splitlines()
    raise AssertionError(f"it ended after {text!r}")


async def killed(sandbox: AsyncSandbox, command: str, count: int) -> list[int]:
    """Kill a command that never ends once it has printed so many pids, and return them."""
    async with sandbox.stream(command) as process:
        found = [int(line) for line in await lines(process, count)]
        with anyio.fail_after(BOUND):
            await process.kill()
    assert len(found) == count
    return found


async def test_background_child_does_not_delay_the_end(sandbox: AsyncSandbox, gone: Gone) -> None:
    with anyio.fail_after(BOUND):
        result = await sandbox.run("sleep 1000 & echo $!")
        quiet = await sandbox.run("(sleep 1000 >/dev/null 2>&1 & echo $!)")
    assert (result.exit_code, quiet.exit_code) == (0, 0)
    pids = [int(result.stdout), int(quiet.stdout)]
    assert all(map(lives, pids))
    await sandbox.kill()
    for pid in pids:
        await gone(pid)


async def test_exit_code_is_right_with_a_background_child(sandbox: AsyncSandbox) -> None:
    assert (await sandbox.run("sleep 1000 & exit 3")).exit_code == 3


async def test_server_started_in_the_background_serves_later_commands(
    sandbox: AsyncSandbox,
) -> None:
    # It logs each request to the pipe of a command that is over.
    server = (
        "import http.server, sys\n"
        "s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "print(s.server_port, file=open('port.new', 'w'))\n"
        "import os; os.rename('port.new', 'port')\n"
        "s.serve_forever()\n"
    )
    await sandbox.files.write("server.py", server)
    await sandbox.run("nohup python3 server.py & while ! [ -e port ]; do sleep 0.01; done")
    port = int(await sandbox.files.read("port"))
    get = (
        "import urllib.request as r\n"
        f"for _ in range(200): r.urlopen('http://127.0.0.1:{port}/server.py').read()\n"
        "print('served')"
    )
    with anyio.fail_after(BOUND):
        result = await sandbox.run_code(get)
    assert result.stdout == "served\n", result.stderr


async def test_kill_ends_the_whole_tree_and_no_sibling(sandbox: AsyncSandbox) -> None:
    async with sandbox.stream("echo $$; while :; do echo beat; sleep 0.01; done") as sibling:
        (sibling_pid, *_) = await lines(sibling, 2)
        background = int((await sandbox.run("sleep 1000 >&- 2>&- & echo $!")).stdout)
        pids = await killed(
            sandbox,
            "echo $$; sleep 1000 & echo $!; setsid sleep 1000 & echo $!;"
            "(setsid sh -c 'echo $$; sleep 1000 & echo $!; wait' &) ; sleep 1000",
            5,
        )
        assert not any(map(lives, pids))
        assert lives(int(sibling_pid))
        assert lives(background)
        await lines(sibling, 2)


async def test_ignored_signals_do_not_help(sandbox: AsyncSandbox) -> None:
    (pid,) = await killed(sandbox, "trap '' TERM INT HUP; echo $$; while :; do :; done", 1)
    assert not lives(pid)


async def test_stopped_processes_and_supervisor_do_not_help(
    sandbox: AsyncSandbox, gone: Gone
) -> None:
    stop = "kill -STOP $!; kill -STOP $PPID; echo $! $$ $PPID | tr ' ' '\\n'; kill -STOP $$"
    *pids, supervisor = await killed(sandbox, f"sleep 1000 & {stop}", 3)
    assert not any(map(lives, pids))
    await gone(supervisor)
    assert (await sandbox.run(["true"])).ok


async def test_deadline_kills_and_brings_the_partial_output(sandbox: AsyncSandbox) -> None:
    with pytest.raises(ExecutionTimeout) as caught, anyio.fail_after(BOUND):
        await sandbox.run("setsid sleep 1000 & echo $! $$; echo err >&2; wait", timeout=2)
    assert caught.value.kill_confirmed
    assert caught.value.stderr == "err\n"
    pids = [int(pid) for pid in caught.value.stdout.split()]
    assert len(pids) == 2
    assert not any(map(lives, pids))


@pytest.mark.parametrize("code", [124, 137, 143])
async def test_exit_code_like_that_of_a_kill_is_no_timeout(
    sandbox: AsyncSandbox, code: int
) -> None:
    assert (await sandbox.run(f"exit {code}", timeout=50)).exit_code == code


CHAIN = """
import os, sys
# Each generation forks the next one and ends; no pid of it lives for long.
count = 0
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    with open("beat", "ab") as file:
        file.write(b".")
    count += 1
    if count == 20:
        print(os.getpid(), flush=True)
"""


async def test_chain_of_forks_is_caught(sandbox: AsyncSandbox) -> None:
    await sandbox.files.write("chain.py", CHAIN)
    await killed(sandbox, "python3 -S chain.py; exec sleep 1000", 1)
    beat = await sandbox.files.stat("beat")
    assert beat.size >= 20
    # A beat needs far less than the time of twenty commands.
    for _ in range(20):
        await sandbox.run(["true"])
    assert (await sandbox.files.stat("beat")).size == beat.size


async def test_bushy_tree_of_forks_is_caught(sandbox: AsyncSandbox) -> None:
    tree = (
        "import os, time\n"
        "for depth in range(5):\n"
        "    if os.fork() == 0 and depth % 2: os.setsid()\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(1000)\n"
    )
    await sandbox.files.write("tree.py", tree)
    pids = await killed(sandbox, "python3 tree.py", 32)
    assert not any(map(lives, pids))


async def test_command_that_kills_its_supervisor_ends_with_all_below_it(
    sandbox: AsyncSandbox, gone: Gone
) -> None:
    background = int((await sandbox.run("sleep 1000 >&- 2>&- & echo $!")).stdout)
    async with sandbox.stream(["sleep", "1000"]) as sibling:
        with anyio.fail_after(BOUND):
            result = await sandbox.run(
                "echo $$; sh -c 'echo $$; setsid sleep 1000 & echo $!; echo > told; wait' & "
                "until [ -e told ]; do sleep 0.01; done; kill -9 $PPID; sleep 1000"
            )
        pids = [int(pid) for pid in result.stdout.split()]
        assert result.exit_code == 137
        assert len(pids) == 3
        assert not any(map(lives, pids))
        assert sibling.returncode is None
        assert lives(background)
        assert (await sandbox.run("echo on")).stdout == "on\n"


async def test_background_child_that_kills_its_supervisor_harms_only_itself(
    sandbox: AsyncSandbox, gone: Gone
) -> None:
    other = int((await sandbox.run("sleep 1000 >&- 2>&- & echo $!")).stdout)
    script = "echo $PPID > parent; (read x < go; kill -9 $(cat parent); exec sleep 1000) & echo $!"
    await sandbox.run(["mkfifo", "go"])
    pid = int((await sandbox.run(script)).stdout)
    await sandbox.run("echo > go")
    await gone(pid)
    assert lives(other)


async def test_supervisor_cannot_be_looked_into(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run("ls -ln /proc/$PPID/ | grep environ")
    owner = result.stdout.split()[2]
    assert owner == "0"  # not dumpable, so it belongs to root whoever runs it


async def test_guest_that_is_killed_takes_its_commands_along(
    sandbox: AsyncSandbox, gone: Gone
) -> None:
    native: Any = sandbox.native
    async with sandbox.stream("echo $$; sleep 1000 & echo $!; wait") as process:
        pids = [int(pid) for pid in await lines(process, 2)]
        native.process.kill()
        with pytest.raises(SandboxGone), anyio.fail_after(BOUND):
            await process.wait()
    for pid in pids:
        await gone(pid)


async def test_signal_reaches_the_group_and_the_command_decides(sandbox: AsyncSandbox) -> None:
    script = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGUSR1, lambda *_: (os.write(1, b'got\\n'), os._exit(5)))\n"
        "os.write(1, b'ready\\n')\n"
        "while True: signal.pause()\n"
    )
    async with sandbox.stream(["python3", "-c", script]) as process:
        await lines(process, 1)
        await process.signal(10)
        with anyio.fail_after(BOUND):
            assert await lines(process, 1) == ["got"]
            assert (await process.wait()).exit_code == 5


async def test_signal_right_after_the_start_is_not_lost(sandbox: AsyncSandbox) -> None:
    for _ in range(20):
        async with sandbox.stream(["sleep", "1000"]) as process:
            await process.signal(15)
            with anyio.fail_after(BOUND):
                assert (await process.wait()).exit_code == 128 + 15


async def test_killed_command_is_gone_when_kill_returns(sandbox: AsyncSandbox) -> None:
    async with sandbox.stream("echo $$; sleep 1000 & echo $!; wait") as process:
        pids = [int(pid) for pid in await lines(process, 2)]
        with anyio.fail_after(BOUND):
            await process.kill()
            await process.kill()
        assert not any(map(lives, pids))
        assert process.returncode == 137
        assert (await process.wait()).exit_code == 137


async def test_kill_that_crosses_the_end_of_its_command_is_confirmed(
    sandbox: AsyncSandbox, gone: Gone
) -> None:
    native: Any = sandbox.native
    guest = native.process
    await sandbox.run(["mkfifo", "gate"])
    await settled(guest.pid)
    async with sandbox.stream("echo $$; read line < gate; exit 3") as process:
        await lines(process, 1)
        (supervisor,) = children(guest.pid)
        with anyio.fail_after(BOUND):
            guest.send_signal(signal.SIGSTOP)
            async with anyio.create_task_group() as group:
                group.start_soon(process.kill)
                await anyio.wait_all_tasks_blocked()  # the kill is on its way, and unread
                await anyio.to_thread.run_sync((native.workdir / "gate").write_text, "\n")
                await gone(supervisor)
                guest.send_signal(signal.SIGCONT)
        assert process.returncode in (3, 137)
    assert (await sandbox.run(["true"])).ok


async def test_guest_enforces_the_deadline_of_a_host_that_does_not_look(
    sandbox: AsyncSandbox, gone: Gone
) -> None:
    async with sandbox.stream("echo $$; sleep 1000", timeout=2) as process:
        # Found beside the channel: nobody reads it, as if the host had other things to do.
        native: Any = sandbox.native
        guest = native.process.pid
        with anyio.fail_after(BOUND):
            await gone(command_of(guest))
        with pytest.raises(ExecutionTimeout):
            await process.wait()
    assert (await sandbox.run(["true"])).ok


def command_of(guest: int) -> int:
    """The only command of a guest, by its supervisor."""
    (supervisor,) = children(guest)
    (pid,) = children(supervisor)
    return pid


async def test_many_commands_at_once_each_have_their_own_end(sandbox: AsyncSandbox) -> None:
    codes: dict[int, int] = {}

    async def run(number: int) -> None:
        codes[number] = (await sandbox.run(f"sleep 0.1; exit {number}")).exit_code

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(run, number)
    assert codes == {number: number for number in range(100)}


async def test_more_commands_at_once_than_descriptors_are_allowed_by_default(
    sandbox: AsyncSandbox,
) -> None:
    native: Any = sandbox.native
    resource = pytest.importorskip("resource")
    limits = resource.prlimit(native.process.pid, resource.RLIMIT_NOFILE, (64, 4096))
    assert limits
    seen: list[str] = []

    async def run() -> None:
        seen.append((await sandbox.run("ulimit -Sn; sleep 0.5")).stdout)

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for _ in range(60):
                group.start_soon(run)
    # The guest took more for itself, and commands have what they would have without it.
    assert seen == ["64\n"] * 60


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into a guest")
async def test_two_hundred_commands_leave_the_guests_descriptors_as_they_were(
    sandbox: AsyncSandbox,
) -> None:
    native: Any = sandbox.native
    pid = native.process.pid
    await settled(pid)
    before = descriptors(pid)
    for number in range(200):
        await sandbox.run("cat; exit 1", stdin=b"x" * number)
    await sandbox.files.write("file", "x")
    await sandbox.files.read("file")
    await sandbox.files.ls()
    await settled(pid)
    assert descriptors(pid) == before


async def settled(guest: int) -> None:
    """Wait until the last supervisor has left, which is a moment after its command."""
    with anyio.fail_after(BOUND):
        while children(guest):  # noqa: ASYNC110
            await anyio.sleep(0.001)


def children(pid: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descriptors(pid: int) -> list[str]:
    return sorted(path.name for path in Path(f"/proc/{pid}/fd").iterdir())
