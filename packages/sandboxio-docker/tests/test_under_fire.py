"""Cancellations at random points, many sandboxes at once, and neighbours that do not notice."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxio import Resources
from sandboxio.errors import OutOfMemory, SandboxError
from sandboxio_docker import DockerBackend

pytestmark = [pytest.mark.docker, pytest.mark.slow]

CREATES = 20
CALLS = 130
AT_ONCE = 12

SESSION = f"io.sandboxio.session={os.getpid()}"


def ours(engine: Any) -> list[str]:
    return [item["Id"] for item in engine.containers(all=True, filters={"label": SESSION})]


async def test_creates_cancelled_at_random_points_leave_nothing(
    engine: Any, backend: DockerBackend
) -> None:
    chance = random.Random(7)
    for _ in range(CREATES):
        with anyio.move_on_after(chance.uniform(0.0, 0.5)):
            sandbox = await backend.create(timeout=60)
            await sandbox.kill()
    with anyio.fail_after(15):
        # One that was created in the moment of its cancellation is removed a moment later.
        while await anyio.to_thread.run_sync(ours, engine):  # noqa: ASYNC110 - the engine's state
            await anyio.sleep(0.05)


async def test_calls_cancelled_at_random_points_leave_no_process_and_no_half_file(
    backend: DockerBackend, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(2 << 20))
    chance = random.Random(11)
    async with await backend.create(timeout=300) as sandbox:

        async def run() -> None:
            await sandbox.run("sleep 4711 & sleep 4711")

        async def stream() -> None:
            async with sandbox.stream("yes; sleep 4711") as process:
                async for _ in process:
                    pass

        async def upload() -> None:
            await sandbox.files.upload(source, "target")

        for _ in range(CALLS):
            with anyio.move_on_after(chance.uniform(0.0, 0.03)):
                await chance.choice((run, stream, upload))()
        listed = await sandbox.run("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'")
        assert "4711" not in listed.stdout
        left = {info.path: info.size for info in await sandbox.files.ls()}
        assert left in ({}, {"target": 2 << 20})


async def test_many_sandboxes_at_once(engine: Any, backend: DockerBackend) -> None:
    seen: list[str] = []

    async def one(number: int) -> None:
        async with await backend.create(timeout=120) as sandbox:
            seen.append((await sandbox.run(["echo", str(number)])).stdout.strip())

    async with anyio.create_task_group() as group:
        for number in range(AT_ONCE):
            group.start_soon(one, number)
    assert sorted(seen, key=int) == [str(number) for number in range(AT_ONCE)]
    assert ours(engine) == []


async def test_memory_hog_and_fork_bomb_do_not_hurt_the_neighbour(backend: DockerBackend) -> None:
    small = Resources(memory_mb=128, processes=64)
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    async with (
        await backend.create(timeout=120) as neighbour,
        await backend.create(timeout=120, resources=small) as hostile,
    ):
        with pytest.raises(OutOfMemory):
            await hostile.run(["python3", "-c", "bytearray(2**31)"])
        assert (await neighbour.run(["echo", "fine"])).stdout == "fine\n"
        with pytest.raises(SandboxError):
            await hostile.run(["python3", "-c", bomb], timeout=2)
        assert (await neighbour.run(["echo", "fine"])).stdout == "fine\n"
