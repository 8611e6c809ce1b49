"""Somebody else removes, kills or pauses a container in the middle of each operation."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import anyio
import docker.errors
import pytest

from docker_proxy import CUT, Proxy, refusal
from dockerd import BUSYBOX_IMAGE
from sandboxio import PIPE
from sandboxio.errors import (
    CreateTimeout,
    CreationError,
    ExecutionTimeout,
    ProviderError,
    SandboxError,
    SandboxGone,
    SandboxUnreachable,
)
from sandboxio.protocols import AsyncSandbox
from sandboxio_docker import DockerBackend

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SESSION = f"io.sandboxio.session={os.getpid()}"

BOUND = 60.0
"""Seconds for what takes a few; the machine may be busy."""

DEADLINE = 12.0
"""Seconds of a command's deadline that is meant to pass, but not before something interferes."""

LARGE = 64 << 20
"""Bytes of a transfer; what interferes with it comes before it can be over."""

Interfere = Callable[[Any, str], None]
Began = Callable[[], Coroutine[Any, Any, None]]


class Operation(Protocol):
    """Something long, which says when it has begun."""

    __name__: str

    async def __call__(self, sandbox: AsyncSandbox, began: Began, folder: Path, /) -> None:
        """Do it."""
        ...


def remove(engine: Any, ref: str) -> None:
    engine.remove_container(ref, force=True)


def kill(engine: Any, ref: str) -> None:
    engine.kill(ref)


def pause(engine: Any, ref: str) -> None:
    engine.pause(ref)
    settled_at = time.monotonic() + STARTING
    while time.monotonic() < settled_at:
        finish_starting(ref)
        time.sleep(0.01)


STARTING = 1.0
"""Seconds in which the engine's process, on its way already, may still enter a paused container."""


def finish_starting(ref: str) -> None:
    """Let the engine's own process leave a paused container, in which it was starting a command.

    Frozen there, it holds a lock that unpausing, killing and removing the container wait for, and
    nothing that the engine can be asked lets go of it.
    """
    for file, thaw, freeze in (
        (Path("/sys/fs/cgroup/freezer/docker", ref, "freezer.state"), "THAWED", "FROZEN"),
        (Path(f"/sys/fs/cgroup/system.slice/docker-{ref}.scope/cgroup.freeze"), "0", "1"),
    ):
        with suppress(OSError):  # its cgroup is somewhere else, or is gone
            while any(starts(pid) for pid in (file.parent / "cgroup.procs").read_text().split()):
                file.write_text(thaw)
                os.sched_yield()
                file.write_text(freeze)


def starts(pid: str) -> bool:
    with suppress(OSError):
        return Path("/proc", pid, "comm").read_text().startswith("runc:")
    return False


async def run(sandbox: AsyncSandbox, began: Began, _: Path) -> None:
    async def when_it_runs() -> None:
        await sandbox.run("until [ -e it-runs ]; do sleep 0.02; done")
        await began()

    async with anyio.create_task_group() as group:
        group.start_soon(when_it_runs)
        await sandbox.run("touch it-runs; sleep 300", timeout=DEADLINE)


async def stream(sandbox: AsyncSandbox, began: Began, _: Path) -> None:
    async with sandbox.stream("echo here; sleep 300", timeout=DEADLINE) as process:
        async for _chunk in process:
            await began()


async def upload(sandbox: AsyncSandbox, began: Began, path: Path) -> None:
    with (path / "large").open("wb") as file:
        file.truncate(LARGE)
    async with anyio.create_task_group() as group:
        group.start_soon(began)
        for number in range(1000):  # one of them is under way
            await sandbox.files.upload(path / "large", f"large-{number % 2}")


async def download(sandbox: AsyncSandbox, began: Began, path: Path) -> None:
    await sandbox.run(f"head -c {LARGE} /dev/zero > large")
    async with anyio.create_task_group() as group:
        group.start_soon(began)
        for number in range(1000):
            await sandbox.files.download("large", path / f"large-{number}")
            (path / f"large-{number}").unlink()


def only(error: BaseException) -> BaseException:
    """The one error in groups of one."""
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    return error


async def struck(
    engine: Any,
    backend: DockerBackend,
    folder: Path,
    interfere: Interfere,
    operations: Sequence[Operation],
    *,
    timeout: float = 120,
) -> dict[str, tuple[AsyncSandbox, BaseException]]:
    """Strike each operation in a sandbox of its own, all at once; what each of them raised."""
    seen: dict[str, tuple[AsyncSandbox, BaseException]] = {}

    async def one(operation: Operation) -> None:
        sandbox = await backend.create(timeout=timeout)

        async def began() -> None:
            await anyio.to_thread.run_sync(interfere, engine, sandbox.id)

        mine = folder / operation.__name__
        await anyio.to_thread.run_sync(mine.mkdir)
        with pytest.raises((SandboxError, BaseExceptionGroup)) as caught:
            await operation(sandbox, began, mine)
        seen[operation.__name__] = sandbox, only(caught.value)
        left = await anyio.to_thread.run_sync(os.listdir, mine)
        assert set(left) <= {"large"}

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for operation in operations:
                group.start_soon(one, operation)
    assert len(seen) == len(operations)
    return seen


@pytest.mark.parametrize("interfere", [remove, kill])
async def test_sandbox_that_is_ended_by_another_is_gone(
    engine: Any, either: DockerBackend, tmp_path: Path, interfere: Interfere
) -> None:
    everything = (run, stream, upload, download)
    seen = await struck(engine, either, tmp_path, interfere, everything)
    with anyio.fail_after(BOUND):
        for name, (sandbox, error) in seen.items():
            assert isinstance(error, SandboxGone), f"{name}: {error!r}"
            with pytest.raises(SandboxGone):
                await sandbox.run(["true"])
            await sandbox.kill()
    assert ours(engine) == []


async def test_paused_sandbox_keeps_the_deadline_and_can_be_killed(
    engine: Any, either: DockerBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "5")  # nothing that is paused can be killed in time
    seen = await struck(engine, either, tmp_path, pause, (run, stream))
    there = ours(engine)
    with anyio.fail_after(BOUND):
        for name, (sandbox, error) in seen.items():
            assert isinstance(error, ExecutionTimeout), f"{name}: {error!r}"
            # Nobody knows what of the command is left in there: the sandbox is ended for it.
            assert not (error.kill_confirmed and sandbox.id in there)
            await sandbox.kill()
    assert ours(engine) == []


async def test_transfer_with_a_paused_sandbox_ends_with_its_lifetime(
    engine: Any, either: DockerBackend, tmp_path: Path
) -> None:
    seen = await struck(engine, either, tmp_path, pause, (upload, download), timeout=8)
    with anyio.fail_after(BOUND):
        for sandbox, _error in seen.values():
            await sandbox.kill()
    assert ours(engine) == []


def ours(engine: Any) -> list[str]:
    return [item["Id"] for item in engine.containers(all=True, filters={"label": SESSION})]


@pytest.mark.parametrize("interfere", [remove, kill, pause])
async def test_create_that_is_interfered_with_fails_or_succeeds_and_leaves_nothing(
    engine: Any, either: DockerBackend, interfere: Interfere
) -> None:
    done = anyio.Event()

    async def watch() -> None:
        """Strike as soon as there is something to strike."""
        while not done.is_set():
            for ref in await anyio.to_thread.run_sync(ours, engine):
                with suppress(docker.errors.APIError):
                    await anyio.to_thread.run_sync(interfere, engine, ref)
                    return
            await anyio.sleep(0.005)

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            # Whatever else it raised would be no error of ours.
            with suppress(
                CreationError, CreateTimeout, SandboxGone, SandboxUnreachable, ProviderError
            ):
                sandbox = await either.create(timeout=10)
                await sandbox.kill()
            done.set()
        while await anyio.to_thread.run_sync(ours, engine):  # noqa: ASYNC110 - the engine's state
            await anyio.sleep(0.05)


async def test_output_that_the_connection_lost_is_not_taken_for_all(tmp_path: Path) -> None:
    """A command whose connection broke has not ended well; it may run on, and is ended."""
    path = tmp_path / "engine"
    proxy = Proxy(path, "cutting")
    try:
        backend = DockerBackend(image=BUSYBOX_IMAGE, host=f"unix://{path}")
        async with await backend.create(timeout=90) as sandbox:
            argv = ["sh", "-c", "cat; exec sleep 86399"]
            async with sandbox.stream(argv, stdin=PIPE) as process:
                await process.send(b"before " + CUT + b" after")
                await process.send_eof()
                chunk = await anext(process)
                assert chunk.data == b"before "
                with pytest.raises(SandboxUnreachable, match="before the command's output did"):
                    await anext(process)
            left = await sandbox.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
            assert "sleep 86399" not in left.stdout
    finally:
        proxy.close()


async def start(sandbox: AsyncSandbox) -> None:
    await sandbox.run(["echo", LAST])


async def read(sandbox: AsyncSandbox) -> None:
    await sandbox.files.read(LAST)


LAST = "the last thing it is asked"


@pytest.mark.parametrize("operation", [start, read])
async def test_refusal_to_start_something_in_a_sandbox_that_ends_says_that_it_ends(
    engine: Any, tmp_path: Path, operation: Callable[[AsyncSandbox], Coroutine[Any, Any, None]]
) -> None:
    """The runtime knows before the engine does, and has words of its own for it."""
    refused = threading.Event()

    def instead(asked: bytes) -> bytes | None:
        if LAST.encode() in asked and not refused.is_set():
            refused.set()
            return refusal("OCI runtime exec failed: cannot exec in a stopped container")
        if b"/exec HTTP/" in asked and refused.is_set():  # the engine shall notice now, not before
            for ref in ours(engine):
                kill(engine, ref)
        return None

    path = tmp_path / "engine"
    proxy = Proxy(path, "faithful", instead)
    try:
        backend = DockerBackend(image=BUSYBOX_IMAGE, host=f"unix://{path}")
        async with await backend.create(timeout=90) as sandbox:
            with anyio.fail_after(BOUND), pytest.raises(SandboxGone):
                await operation(sandbox)
    finally:
        proxy.close()
