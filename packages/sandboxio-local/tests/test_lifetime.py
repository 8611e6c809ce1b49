"""A sandbox ends with its lifetime or its owner, whatever is killed and in whichever order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from leftovers import children
from sandboxio.errors import SandboxGone
from sandboxio.spi import ProvisionRequest
from sandboxio_local import _record, _state
from sandboxio_local._driver import LocalDriver
from sandboxio_local._processes import alive
from sandboxio_local._sandbox import LocalSandbox

Run = Callable[..., Awaitable[Any]]
Make = Callable[..., Awaitable[LocalSandbox]]
Until = Callable[[Callable[[], bool]], Awaitable[None]]

OWNER = """
import anyio, sys
sys.path[:0] = {paths!r}
from conftest import request, run_in
from sandboxio_local._driver import LocalDriver

async def main():
    driver = LocalDriver()
    sandbox = await driver.provision(request(driver, timeout={timeout}))
    await run_in(sandbox, "sh", "-c", "(trap '' TERM HUP; setsid sleep 1000) >/dev/null 2>&1 &")
    native = sandbox.native
    print(sandbox.id, native.init, native.init_started, flush=True)
    await anyio.sleep(600)

anyio.run(main)
"""


class Owner:
    """Another process with a sandbox of its own."""

    def __init__(self, timeout: float) -> None:
        paths = [str(Path(__file__).parent), *sys.path]
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(OWNER.format(paths=paths, timeout=timeout))],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        name, init, started = self.process.stdout.readline().split()
        self.id = name
        self.init = (int(init), int(started))
        self.state = _state.StateDirectory(_state.base() / name)
        self.processes = self.state.processes()
        record = self.state.read(_record.MADE)
        assert record is not None
        self.groups = _record.groups_of(record)

    @property
    def warden(self) -> tuple[int, int]:
        return self.processes["warden"]

    def gone(self) -> bool:
        return not any(alive(*process) for process in (self.init, self.warden))

    def left_nothing(self) -> bool:
        return nothing_of(self.state.path, self.groups)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def owner() -> Iterator[Owner]:
    owner = Owner(60)
    yield owner
    owner.close()


def nothing_of(directory: Path, groups: Iterable[str]) -> bool:
    return not directory.exists() and not any(Path(procs).parent.exists() for procs in groups)


def parent_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("PPid"))


async def test_sandbox_of_a_killed_owner_is_gone(owner: Owner, until: Until) -> None:
    assert alive(*owner.init)
    owner.process.kill()
    await until(owner.gone)
    await until(owner.left_nothing)


async def test_sandbox_of_a_stopped_owner_ends_with_its_lifetime(until: Until) -> None:
    owner = Owner(5)
    try:
        os.kill(owner.process.pid, signal.SIGSTOP)
        await until(owner.gone)
        await until(owner.left_nothing)
    finally:
        owner.close()


async def test_sandbox_of_a_killed_warden_is_gone(
    owner: Owner, driver: LocalDriver, until: Until
) -> None:
    os.kill(owner.warden[0], signal.SIGKILL)
    await until(owner.gone)
    assert owner.id not in [managed.sandbox_id for managed in await driver.list_managed({})]
    await until(owner.left_nothing)


async def test_both_killed_leave_nothing_after_the_next_listing(
    owner: Owner, driver: LocalDriver, until: Until
) -> None:
    os.kill(owner.process.pid, signal.SIGSTOP)  # so that neither can act on the other's end
    os.kill(owner.warden[0], signal.SIGKILL)
    owner.process.kill()
    await until(owner.gone)
    await driver.list_managed({})
    await until(owner.left_nothing)


async def test_next_create_collects_what_a_killed_warden_left(
    owner: Owner, make: Make, until: Until
) -> None:
    os.kill(owner.warden[0], signal.SIGKILL)
    await until(owner.gone)
    await make()
    await until(owner.left_nothing)


async def test_sandbox_that_somebody_else_is_removing_is_ended(
    make: Make, driver: LocalDriver
) -> None:
    """Its warden was killed, and its owner ends it while others find that it is abandoned."""
    for _ in range(20):
        sandbox = await make()
        warden, _ = _state.StateDirectory(sandbox.native.directory).processes()["warden"]
        os.kill(warden, signal.SIGKILL)
        async with anyio.create_task_group() as group:
            group.start_soon(driver.list_managed, {})
            group.start_soon(sandbox.terminate)
        assert not sandbox.native.directory.exists()


# A thread of the event loop's may be there, and has nothing to do with what is forked here.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_fork_of_the_owner_does_not_keep_the_sandbox(make: Make) -> None:
    """A forked child holds copies of every descriptor; it is no owner."""
    sandbox = await make()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    try:
        await sandbox.terminate()
        assert nothing_of(sandbox.native.directory, sandbox.native.groups)
    finally:
        os.close(write)
        os.waitpid(pid, 0)  # noqa: ASYNC222 - it leaves at once


async def test_lifetime_ends_the_sandbox_and_leaves_nothing(
    make: Make, run: Run, until: Until
) -> None:
    sandbox = await make(timeout=3)
    await run(sandbox, "sh", "-c", "trap '' TERM; sleep 100 >/dev/null 2>&1 &")
    with pytest.raises(SandboxGone):
        await run(sandbox, "sleep", "20")
    await until(lambda: nothing_of(sandbox.native.directory, sandbox.native.groups))
    assert not await sandbox.alive()


async def test_warden_of_an_expired_sandbox_is_no_zombie(
    driver: LocalDriver, ask: Callable[..., ProvisionRequest], until: Until
) -> None:
    """Its creator never asks for it again, and is not made to."""
    before = children()
    sandbox = await driver.provision(ask(driver, timeout=2))
    await until(lambda: not sandbox.native.directory.exists())
    await until(lambda: all(state_of(pid) == "Z" for pid in children() - before))
    await driver.list_managed({})
    assert children() == before
    sandbox.channel.close()
    await sandbox.terminate()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_killed_bubblewrap_ends_the_sandbox(make: Make, run: Run, until: Until) -> None:
    sandbox = await make()
    os.kill(parent_of(sandbox.native.init), signal.SIGKILL)
    await until(lambda: not alive(sandbox.native.init, sandbox.native.init_started))
    await until(lambda: nothing_of(sandbox.native.directory, sandbox.native.groups))


async def test_killed_first_process_ends_the_sandbox(make: Make, run: Run, until: Until) -> None:
    sandbox = await make()
    os.kill(sandbox.native.init, signal.SIGKILL)
    await until(lambda: nothing_of(sandbox.native.directory, sandbox.native.groups))
    with pytest.raises(SandboxGone):
        await run(sandbox, "true")
