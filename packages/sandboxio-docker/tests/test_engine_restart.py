"""An engine that stops in the middle of things; it is one of its own, beside the machine's."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from docker_engine import Engine
from dockerd import BUSYBOX_IMAGE, PYTHON_IMAGE
from sandboxio.errors import (
    ConnectError,
    CreateTimeout,
    CreationError,
    SandboxError,
    SandboxGone,
    SandboxUnreachable,
)
from sandboxio.protocols import AsyncSandbox
from sandboxio_docker import DockerBackend

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    # docker-py leaves some of the connections that an engine cuts off to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

BOUND = 100.0
"""Seconds for an engine to stop, and to start again."""

LARGE = 64 << 20
"""Bytes of a transfer; the engine stops before it can be over."""

Operation = Callable[[AsyncSandbox, anyio.Event, Path], Awaitable[object]]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Have what docker-py leaves collected before the next test, where the warning counts."""
    yield
    gc.collect()


async def run(sandbox: AsyncSandbox, began: anyio.Event, _: Path) -> None:
    began.set()
    await sandbox.run(["sleep", "300"])


async def stream(sandbox: AsyncSandbox, began: anyio.Event, _: Path) -> None:
    async with sandbox.stream("echo started; sleep 300") as process:
        async for _chunk in process:
            began.set()


async def upload(sandbox: AsyncSandbox, began: anyio.Event, folder: Path) -> None:
    with (folder / "large").open("wb") as file:
        file.truncate(LARGE)
    began.set()
    for number in range(1000):
        await sandbox.files.upload(folder / "large", f"large-{number % 2}")


async def download(sandbox: AsyncSandbox, began: anyio.Event, folder: Path) -> None:
    await sandbox.run(f"head -c {LARGE} /dev/zero > large")
    began.set()
    for number in range(1000):
        await sandbox.files.download("large", folder / f"large-{number}")
        (folder / f"large-{number}").unlink()


async def create(backend: DockerBackend) -> AsyncIterator[str]:
    while True:
        sandbox = await backend.create(timeout=60)
        yield sandbox.id
        await sandbox.kill()


@pytest.mark.parametrize("image", [PYTHON_IMAGE, BUSYBOX_IMAGE], ids=["guest", "exec"])
async def test_engine_that_stops_and_starts_again_in_the_middle_of_everything(
    private: Engine, tmp_path: Path, image: str
) -> None:
    """One sandbox for each operation, and one stop for all of them: a stop takes seconds."""
    await anyio.to_thread.run_sync(private.start)
    backend = DockerBackend(image=image, host=private.host)
    seen: dict[str, SandboxError] = {}
    made: list[AsyncSandbox] = []

    async def busy(name: str, operation: Operation, ready: anyio.Event) -> None:
        sandbox = await backend.create(timeout=300)
        made.append(sandbox)
        folder = tmp_path / name
        folder.mkdir()
        try:
            await operation(sandbox, ready, folder)
        except SandboxError as error:
            seen[name] = error

    async def creating(ready: anyio.Event) -> None:
        try:
            async for _ in create(backend):
                ready.set()
        except SandboxError as error:
            seen["create"] = error

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            waiting: list[anyio.Event] = []
            for operation in (run, stream, upload, download):
                waiting.append(anyio.Event())
                group.start_soon(busy, operation.__name__, operation, waiting[-1])
            waiting.append(anyio.Event())
            group.start_soon(creating, waiting[-1])
            for event in waiting:
                await event.wait()
            await anyio.to_thread.run_sync(private.stop)
    for name in ("run", "stream", "upload", "download"):
        assert isinstance(seen[name], SandboxGone | SandboxUnreachable), f"{name}: {seen[name]!r}"
        left = [path.name for path in (tmp_path / name).iterdir()]
        assert set(left) <= {"large"}, f"{name} left {left}"
    # Of the create, or of the kill that comes behind it; unreachable is a kind of connect.
    kinds = (CreationError, CreateTimeout, ConnectError)
    assert isinstance(seen["create"], kinds), repr(seen["create"])
    with pytest.raises(SandboxUnreachable, match=r"d\.sock"):
        await backend.create(timeout=30)
    assert not (await backend.health()).ok
    with anyio.fail_after(BOUND):
        await anyio.to_thread.run_sync(private.start)
        for sandbox in made:
            await sandbox.kill()
        for managed in await backend.list_managed():
            # What was being made when the engine stopped; nothing of it runs.
            assert managed.state == "stopped"
            await backend.kill_managed(managed.sandbox_id)
        assert await backend.list_managed() == []
        async with await backend.create(timeout=60) as again:
            assert (await again.run(["echo", "back"])).stdout == "back\n"
        assert private.docker("ps", "--all", "--quiet") == ""


async def test_sandbox_of_a_stopped_engine_says_so_and_can_be_killed(private: Engine) -> None:
    await anyio.to_thread.run_sync(private.start)
    backend = DockerBackend(image=PYTHON_IMAGE, host=private.host)
    with anyio.fail_after(BOUND):
        sandbox = await backend.create(timeout=300)
        await anyio.to_thread.run_sync(private.stop)
        for _ in range(2):
            with pytest.raises((SandboxGone, SandboxUnreachable)):
                await sandbox.run(["true"])
        await anyio.to_thread.run_sync(private.start)
        with pytest.raises((SandboxGone, SandboxUnreachable)):
            await sandbox.files.read("x")
        await sandbox.kill()
        assert await backend.list_managed() == []
