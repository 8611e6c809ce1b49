"""An engine that stops in the middle of things; it is one of its own, beside the machine's."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

import docker_engine
from dockerd import PYTHON_IMAGE
from sandboxio.errors import SandboxError, SandboxGone, SandboxUnreachable
from sandboxio_docker import DockerBackend

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def private(root: None, tmp_path_factory: pytest.TempPathFactory) -> Generator[Any, None, None]:
    """An engine that may be stopped, with the image of the tests."""
    folder = tmp_path_factory.mktemp("e")
    engine = docker_engine.Engine(Path(folder), host=f"unix://{folder}/d.sock", private=True)
    engine.start()
    try:
        saved = subprocess.run(["docker", "save", PYTHON_IMAGE], check=True, capture_output=True)
        engine.docker("load", stdin=saved.stdout)
        yield engine
    finally:
        engine.stop()


async def test_stopped_engine_ends_what_runs_and_is_named_until_it_is_back(private: Any) -> None:
    private.start()
    backend = DockerBackend(image=PYTHON_IMAGE, host=private.host)
    sandbox = await backend.create(timeout=300)
    errors: list[SandboxError] = []
    async with anyio.create_task_group() as group:

        async def busy() -> None:
            try:
                await sandbox.run(["sleep", "300"])
            except SandboxError as error:
                errors.append(error)

        group.start_soon(busy)
        async with sandbox.stream("echo started; sleep 300") as process:
            async for _ in process:
                break
            await anyio.to_thread.run_sync(private.stop)
            with pytest.raises((SandboxGone, SandboxUnreachable)):
                await process.wait()
    (error,) = errors
    assert isinstance(error, SandboxGone | SandboxUnreachable)
    with pytest.raises(SandboxUnreachable, match=r"d\.sock"):
        await backend.create(timeout=30)
    assert not (await backend.health()).ok
    await anyio.to_thread.run_sync(private.start)
    with pytest.raises((SandboxGone, SandboxUnreachable)):
        await sandbox.files.read("x")
    await sandbox.kill()
    assert await backend.list_managed() == []
    async with await backend.create(timeout=60) as again:
        assert (await again.run(["echo", "back"])).stdout == "back\n"
