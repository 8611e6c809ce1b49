"""Cancellations at random points, many sandboxes at once, and neighbours that do not notice."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from dockerd import BUSYBOX_IMAGE, PYTHON_IMAGE
from sandboxio import Resources
from sandboxio.errors import OutOfMemory, SandboxError
from sandboxio.protocols import AsyncSandbox
from sandboxio_docker import DockerBackend, _client, _dial

pytestmark = [pytest.mark.docker, pytest.mark.slow]

CREATES = 40
CALLS = 260
"""Together 300 on each event loop, of create, kill, run, stream, upload and download."""

AT_ONCE = 50

BOUND = 110.0
"""Seconds for what takes a fraction of it; the machine may be busy."""

SESSION = f"io.sandboxio.session={os.getpid()}"

QUIET = 90.0
"""Seconds without a word; clients of the engine give up after 60."""


def ours(engine: Any) -> list[str]:
    return [item["Id"] for item in engine.containers(all=True, filters={"label": SESSION})]


async def until_none_is_left(engine: Any) -> None:
    """One that came into being in the moment of its cancellation is removed a moment later."""
    with anyio.fail_after(30):
        while await anyio.to_thread.run_sync(ours, engine):  # noqa: ASYNC110 - the engine's state
            await anyio.sleep(0.05)


async def test_creates_and_kills_cancelled_at_random_points_leave_nothing(
    engine: Any, backend: DockerBackend
) -> None:
    chance = random.Random(7)
    with anyio.fail_after(BOUND):
        for _ in range(CREATES):
            sandbox: AsyncSandbox | None = None
            with anyio.move_on_after(chance.uniform(0.0, 0.5)):
                sandbox = await backend.create(timeout=60)
            if sandbox is not None:
                with anyio.move_on_after(chance.uniform(0.0, 0.2)):
                    await sandbox.kill()
    await until_none_is_left(engine)


@pytest.mark.parametrize(
    ("image", "calls", "within"),
    [(PYTHON_IMAGE, CALLS, 0.03), (BUSYBOX_IMAGE, CALLS // 10, 0.4)],
    ids=["guest", "exec"],
)
async def test_calls_cancelled_at_random_points_leave_no_process_and_no_half_file(
    tmp_path: Path, image: str, calls: int, within: float
) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(2 << 20))
    chance = random.Random(11)
    async with await DockerBackend(image=image).create(timeout=300) as sandbox:
        await sandbox.files.upload(source, "there")

        async def run() -> None:
            await sandbox.run("sleep 4711 & sleep 4711")

        async def stream() -> None:
            async with sandbox.stream("yes; sleep 4711") as process:
                async for _ in process:
                    pass

        async def upload() -> None:
            await sandbox.files.upload(source, "target")

        async def download() -> None:
            await sandbox.files.download("there", tmp_path / "copy")

        operations: tuple[Callable[[], Awaitable[None]], ...] = (run, stream, upload, download)
        with anyio.fail_after(BOUND):
            for _ in range(calls):
                with anyio.move_on_after(chance.uniform(0.0, within)):
                    await chance.choice(operations)()
            listed = await sandbox.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'")
            assert "4711" not in listed.stdout.split()
            left = {info.path: info.size for info in await sandbox.files.ls()}
        left.pop("target", None)
        assert left == {"there": 2 << 20}
        assert set(os.listdir(tmp_path)) <= {"source", "copy"}  # noqa: PTH208


async def test_many_sandboxes_at_once(
    engine: Any, backend: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The engine of a small machine needs longer than five seconds for fifty removals.
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "60")
    seen: list[str] = []

    async def one(number: int) -> None:
        async with await backend.create(timeout=300) as sandbox:
            seen.append((await sandbox.run(["echo", str(number)])).stdout.strip())

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for number in range(AT_ONCE):
                group.start_soon(one, number)
    assert sorted(seen, key=int) == [str(number) for number in range(AT_ONCE)]
    assert ours(engine) == []


@pytest.mark.parametrize("image", [PYTHON_IMAGE, BUSYBOX_IMAGE], ids=["guest", "exec"])
async def test_memory_hog_and_fork_bomb_do_not_hurt_the_neighbour(engine: Any, image: str) -> None:
    backend = DockerBackend(image=image)
    small = Resources(memory_mb=128, processes=64)
    bomb = "bomb() { bomb | bomb & }; bomb; while :; do sleep 1; done"
    with anyio.fail_after(BOUND):
        neighbour = await backend.create(timeout=120)
        hostile = await backend.create(timeout=120, resources=small)
        with pytest.raises(OutOfMemory):
            # Without a newline in what it reads, tail has to keep all of it.
            await hostile.run("head -c 1000000000 /dev/zero | tail -n 1 > /dev/null; exit $?")
        assert (await neighbour.run(["echo", "fine"])).stdout == "fine\n"
        with pytest.raises(SandboxError):
            await hostile.run(bomb, timeout=3)
        assert (await neighbour.run(["echo", "fine"])).stdout == "fine\n"
        await hostile.kill()
        await neighbour.kill()
    assert ours(engine) == []


@pytest.mark.timeout(240)
async def test_long_silence_is_no_reason_to_cut(
    monkeypatch: pytest.MonkeyPatch, anyio_backend_name: str
) -> None:
    """Both kinds of sandbox at once, over the engine: the silence is what takes long."""
    monkeypatch.setenv("SBX_DOCKER_DIRECT", "0")
    quiet = QUIET
    if anyio_backend_name == "trio":
        # Once is enough of that. A shorter silence, and shorter bounds that it has to outlast.
        quiet = 12.0
        monkeypatch.setattr(_client, "ANSWER_TIMEOUT", 8.0)
        monkeypatch.setattr(_dial, "DIAL_TIMEOUT", 8.0)
    heard: list[str] = []

    async def listen(backend: DockerBackend) -> None:
        async with await backend.create(timeout=300) as sandbox:
            result = await sandbox.run(f"sleep {quiet:g}; echo still here", timeout=200)
            heard.append(result.stdout)

    async with anyio.create_task_group() as group:
        for image in (PYTHON_IMAGE, BUSYBOX_IMAGE):
            group.start_soon(listen, DockerBackend(image=image))
    assert heard == ["still here\n"] * 2
