"""Sandboxes come and go, and are found again; what is made is what is gone in the end."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import stat
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from leftovers import children
from sandboxio.errors import ConnectError, CreationError
from sandboxio.spi import ProvisionRequest
from sandboxio_local import _bwrap, _health, _state
from sandboxio_local._driver import LocalDriver
from sandboxio_local._processes import alive
from sandboxio_local._sandbox import LocalSandbox

Run = Callable[..., Awaitable[Any]]
Make = Callable[..., Awaitable[LocalSandbox]]
Until = Callable[[Callable[[], bool]], Awaitable[None]]
Ask = Callable[[LocalDriver], ProvisionRequest]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def states_of(names: Iterable[str]) -> list[str]:
    """Return those that have a state directory. Others of this user's may come and go meanwhile."""
    return [name for name in names if _state.StateDirectory.find(name) is not None]


def groups_left(sandbox: LocalSandbox) -> list[str]:
    return [procs for procs in sandbox.native.groups if Path(procs).parent.exists()]


async def test_forty_in_a_row_leave_nothing(driver: LocalDriver, ask: Ask) -> None:
    first = await driver.provision(ask(driver))
    await first.terminate()
    gc.collect()
    before = (open_descriptors(), children())
    for _ in range(40):
        sandbox = await driver.provision(ask(driver))
        await sandbox.terminate()
        assert groups_left(sandbox) == []
        assert states_of([sandbox.id]) == []
        assert not alive(sandbox.native.init, sandbox.native.init_started)
    assert children() == before[1]
    # What other tests left idle in this process may close meanwhile, and hides no leak of every one.
    assert open_descriptors() < before[0] + 20


async def test_twenty_at_once_leave_nothing(driver: LocalDriver, ask: Ask, run: Run) -> None:
    before = children()
    names: list[str] = []

    async def one() -> None:
        sandbox = await driver.provision(ask(driver))
        names.append(sandbox.id)
        assert (await run(sandbox, "echo", "hello")).output == "hello\n"
        await sandbox.terminate()

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one)
    assert len(names) == 20
    assert (children(), states_of(names)) == (before, [])


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 4, 7, 10, 14, 18, 23, 30, 45])
async def test_cancelled_create_leaves_nothing(
    driver: LocalDriver, ask: Ask, milliseconds: int
) -> None:
    before = (children(), open_descriptors())
    wanted = ask(driver)
    sandbox: LocalSandbox | None = None
    with anyio.move_on_after(milliseconds / 1000):
        sandbox = await driver.provision(wanted)
    if sandbox is not None:
        await sandbox.terminate()
    assert (children(), states_of([wanted.name])) == (before[0], [])
    assert open_descriptors() <= before[1] + 1  # a thread pool may have been started
    assert not await driver.destroy(wanted.name)


async def test_create_cancelled_in_the_middle_of_bubblewrap_leaves_nothing(
    driver: LocalDriver, ask: Ask, tmp_path: Path, until: Until
) -> None:
    """It has a child by then that nobody was told of, and that no parent waits for."""
    os.chmod(tmp_path, 0o755)  # noqa: PTH101
    marker = f"{int(secrets.token_hex(4), 16)}"
    fake = make_script(tmp_path / "bwrap", f"sleep 6{marker} & sleep 7{marker}")
    driver._bubblewrap = _bwrap.Bubblewrap(str(fake), str(tmp_path), (0, 11, 0))
    async with anyio.create_task_group() as group:
        group.start_soon(driver.provision, ask(driver))
        await until(lambda: len(running(marker)) == 2)
        group.cancel_scope.cancel()
    assert running(marker) == []


@pytest.mark.parametrize("milliseconds", [0, 3, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30, 40])
async def test_warden_killed_in_the_middle_of_a_create_leaves_nothing(
    driver: LocalDriver, ask: Ask, until: Until, milliseconds: int
) -> None:
    # To ask for its version starts a child too, which is not the one meant here.
    driver._bubblewrap = _bwrap.find()
    before = children()
    wanted = ask(driver)

    async def kill_the_warden() -> None:
        await until(lambda: children() > before)
        await anyio.sleep(milliseconds / 1000)
        for pid in children() - before:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    sandbox: LocalSandbox | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(kill_the_warden)
        try:
            sandbox = await driver.provision(wanted)
        except CreationError:
            group.cancel_scope.cancel()
    if sandbox is not None:
        await sandbox.terminate()
    await until(lambda: running(wanted.name) == [])
    assert states_of([wanted.name]) == []


def running(marker: str) -> list[int]:
    """Return the living processes of this host with a marker in their command line."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if marker in (folder / "cmdline").read_text() and state not in ("Z", "X"):
                found.append(int(folder.name))
        except (OSError, UnicodeDecodeError):
            continue
    return found


async def test_ending_twice_and_at_the_same_time_succeeds(make: Make) -> None:
    sandbox = await make()
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(sandbox.terminate)
    await sandbox.terminate()
    assert not await sandbox.alive()


async def test_cancelled_end_can_be_repeated(make: Make) -> None:
    sandbox = await make()
    with anyio.move_on_after(0):
        await sandbox.terminate()
    await sandbox.terminate()
    assert not await sandbox.alive()
    assert not sandbox.native.directory.exists()


async def test_warden_that_another_thread_reaps_meanwhile_has_ended(
    make: Make, driver: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await make()
    pidfd_open = os.pidfd_open

    def others_come_first(pid: int) -> int:
        monkeypatch.setattr(os, "pidfd_open", pidfd_open)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        driver._wardens.forget_ended()
        return pidfd_open(pid)

    monkeypatch.setattr(os, "pidfd_open", others_come_first)
    await sandbox.terminate()
    assert not sandbox.native.directory.exists()


async def test_sandboxes_are_listed_with_their_labels(make: Make, driver: LocalDriver) -> None:
    label = secrets.token_hex(8)
    sandbox = await make(metadata={"test": label, "other": "x"})
    await make(metadata={"test": "another"})
    (found,) = await driver.list_managed({"test": label})
    assert found.sandbox_id == sandbox.id
    assert found.backend == "local"
    assert found.state == "running"
    assert found.labels == {"test": label, "other": "x"}
    assert found.owner_alive is True
    assert found.created_at is not None
    assert found.created_at.tzinfo is not None
    await sandbox.terminate()
    assert await driver.list_managed({"test": label}) == []


async def test_attached_handle_shares_the_sandbox(make: Make, run: Run) -> None:
    sandbox = await make(env={"COLOUR": "blue"})
    await run(sandbox, "sh", "-c", "echo hello > /work/note")
    other = await LocalDriver().attach(sandbox.id)
    assert other.id == sandbox.id
    assert other.policy == sandbox.policy
    assert other.native == sandbox.native
    assert 0 < other.remaining <= 60
    assert (await run(other, "sh", "-c", "cat note; echo $COLOUR")).output == "hello\nblue\n"
    await other.detach()
    assert (await run(sandbox, "cat", "note")).output == "hello\n"


async def test_attached_handle_ends_the_sandbox_for_everybody(make: Make, run: Run) -> None:
    sandbox = await make()
    other = await LocalDriver().attach(sandbox.id)
    await other.terminate()
    assert not await sandbox.alive()
    assert not sandbox.native.directory.exists()
    with pytest.raises(ConnectError):
        await LocalDriver().attach(sandbox.id)


async def test_destroy_ends_a_sandbox_by_its_id(make: Make) -> None:
    sandbox = await make()
    assert await LocalDriver().destroy(sandbox.id)
    assert not await sandbox.alive()
    assert groups_left(sandbox) == []
    assert not await LocalDriver().destroy(sandbox.id)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../../etc", "/etc", "sbx-none", "a/b", "sbx-\0", "x" * 300, "sbx-é", "SBX-1"],
)
async def test_what_is_no_id_finds_nothing(driver: LocalDriver, name: str) -> None:
    assert await driver.destroy(name) is False
    with pytest.raises(ConnectError):
        await driver.attach(name)


async def test_state_is_for_this_user_alone(make: Make) -> None:
    sandbox = await make()
    modes = modes_of(sandbox)
    assert modes == {0o700}
    assert states_of([sandbox.id]) == [sandbox.id]


def modes_of(sandbox: LocalSandbox) -> set[int]:
    folders = (sandbox.native.directory, sandbox.native.directory.parent)
    return {stat.S_IMODE(folder.stat().st_mode) for folder in folders}


async def test_state_tells_no_values_of_the_environment(make: Make) -> None:
    canary = secrets.token_hex(16)
    sandbox = await make(env={"TOKEN": canary})
    assert canary not in everything_of(sandbox)


def everything_of(sandbox: LocalSandbox) -> str:
    files = [path for path in sandbox.native.directory.iterdir() if path.is_file()]
    lines = (sandbox.native.directory / "processes").read_text().splitlines()
    processes = [Path(f"/proc/{line.split()[1]}/cmdline") for line in lines]
    return "".join(path.read_text() for path in [*files, *processes])


async def test_name_in_use_is_refused(make: Make) -> None:
    sandbox = await make()
    with pytest.raises(CreationError):
        await make(name=sandbox.id)
    assert await sandbox.alive()


async def test_base_of_somebody_else_is_refused(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "sandboxio"
    base.mkdir(mode=0o755)
    monkeypatch.setattr(_state, "base", lambda: base)
    with pytest.raises(CreationError, match="only this user"):
        await make()
    base.rmdir()
    base.symlink_to(tmp_path)
    with pytest.raises(CreationError, match="only this user"):
        await make()


async def test_deep_base_works(
    make: Make, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of a socket is short, and the path of a directory need not be."""
    base = tmp_path / ("deep" * 20) / ("deeper" * 10) / "sandboxio"
    base.parent.mkdir(parents=True)
    monkeypatch.setattr(_state, "base", lambda: base)
    sandbox = await make()
    other = await LocalDriver().attach(sandbox.id)
    assert (await run(other, "echo", "hello")).output == "hello\n"
    await other.detach()
    await sandbox.terminate()
    assert not base.exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 1", "ended"),
        ("echo 'bwrap: something new' >&2; exit 1", "something new"),
        (
            'echo "bwrap: Can\'t mount proc on /newroot/proc: no" >&2; exit 1',
            "hides parts of /proc",
        ),
        ("echo 'nesting depth or max exceeded (ENOSPC)' >&2; exit 1", "limit on namespaces"),
        ("sleep 0.2; exit 7", "ended"),
    ],
)
async def test_failing_bubblewrap_is_explained_and_leaves_nothing(
    driver: LocalDriver, ask: Ask, tmp_path: Path, script: str, message: str
) -> None:
    os.chmod(tmp_path, 0o755)  # noqa: PTH101
    fake = make_script(tmp_path / "bwrap", script)
    driver._bubblewrap = _bwrap.Bubblewrap(str(fake), str(tmp_path), (0, 11, 0))
    before = children()
    wanted = ask(driver)
    with pytest.raises(CreationError, match=message):
        await driver.provision(wanted)
    assert (children(), states_of([wanted.name])) == (before, [])


def make_script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def unhurried_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """How fast a busy machine is is not what is tested."""
    monkeypatch.setattr(_health, "PROBE_BOUND", 30.0)


@pytest.mark.usefixtures("unhurried_probe")
async def test_health_says_what_there_is(driver: LocalDriver) -> None:
    health = await driver.health()
    assert health.ok, health
    facts = dict(health.facts)
    assert set(facts) == {"bubblewrap", "caps", "egress", "guest python", "kernel"}


@pytest.mark.usefixtures("unhurried_probe")
async def test_health_says_what_is_missing(
    driver: LocalDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = make_script(tmp_path / "bwrap", "echo 'bwrap: No permissions' >&2; exit 1")
    monkeypatch.setattr(_bwrap, "find", lambda: _bwrap.Bubblewrap(str(broken), None, (0, 11, 0)))
    health = await driver.health()
    assert not health.ok
    assert "No permissions" in health.detail
    assert health.hint
