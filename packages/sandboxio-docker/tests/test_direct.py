"""The way to a guest past the engine: who may go it, whom it leads to, and what there is without it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

from dockerd import PYTHON_IMAGE
from sandboxio.errors import SandboxGone
from sandboxio_docker import DockerBackend
from sandboxio_docker._client import Engine
from sandboxio_docker._direct import reach
from sandboxio_docker._ending import Ending
from sandboxio_docker._guest import LISTENER
from sandboxio_docker._transport import END_POLL, DockerTransport, FrameReader

pytestmark = pytest.mark.anyio

ANSWER = 60.0
"""Seconds for another process to do its part."""

SIZE = 8 << 20
"""Bytes of content, far more than a sandbox's start takes."""

WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
"""How root runs a program that may not enter namespaces."""

LISTEN = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(eval(sys.argv[1]))
listener.listen(8)
other = os.fork()
if other == 0:
    sys.stdin.read()
    os.kill(os.getppid(), 9)
    os._exit(0)
print(os.getpid(), other, flush=True)
while True:
    accepted, _ = listener.accept()
    try:
        accepted.sendall(b"hello")
    except OSError:
        pass
"""
"""A process that listens where guests do, and a second one beside it."""

MOVE = """
import sys, anyio
from sandboxio_docker import DockerBackend

async def main(image, size):
    async with await DockerBackend(image=image).create(timeout=120) as sandbox:
        await sandbox.files.write("content", b"x" * int(size))
        print(len(await sandbox.files.read("content")), flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)

anyio.run(main, *sys.argv[1:])
"""


@pytest.fixture
def may_enter() -> None:
    """Skips where this process may not enter a container's network namespace."""
    if os.geteuid() != 0:
        pytest.skip("entering a network namespace needs root")


def started(*command: str) -> subprocess.Popen[str]:
    """Run a program in a process of its own."""
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def written_by_shims() -> int:
    """Bytes that the processes between engine and containers have written."""
    total = 0
    for process in Path("/proc").iterdir():
        try:
            if "containerd-shim" in (process / "cmdline").read_text(errors="replace"):
                lines = (process / "io").read_text().splitlines()
                total += int(next(line for line in lines if line.startswith("wchar")).split()[1])
        except (OSError, ValueError):
            continue
    return total


def namespaces_of_threads() -> set[Path]:
    """The network namespaces that this process is in."""
    return {(thread / "ns" / "net").readlink() for thread in Path("/proc/self/task").iterdir()}


@pytest.mark.docker
@pytest.mark.usefixtures("may_enter")
async def test_frames_do_not_pass_the_engine() -> None:
    async with await DockerBackend(image=PYTHON_IMAGE).create(timeout=120) as sandbox:
        before = written_by_shims()
        await sandbox.files.write("content", b"x" * SIZE)
        assert len(await sandbox.files.read("content")) == SIZE
        result = await sandbox.run(["sh", "-c", f"head -c {SIZE} /dev/zero | tr '\\0' x"])
        assert len(result.stdout) == result.stdout.count("x") > 0
        assert written_by_shims() - before < SIZE // 8


@pytest.mark.docker
@pytest.mark.usefixtures("may_enter")
async def test_nothing_of_the_host_is_mounted_and_no_thread_stays_elsewhere(engine: Any) -> None:
    async with await DockerBackend(image=PYTHON_IMAGE).create(timeout=120) as sandbox:
        assert engine.inspect_container(sandbox.id)["Mounts"] == []
        assert len(namespaces_of_threads()) == 1


@pytest.mark.docker
@pytest.mark.usefixtures("may_enter")
async def test_end_of_the_lifetime_is_told_as_such() -> None:
    sandbox = await DockerBackend(image=PYTHON_IMAGE).create(timeout=5)
    with pytest.raises(SandboxGone, match="lifetime is over"):
        await sandbox.run(["sleep", "60"])
    await sandbox.kill()


@pytest.mark.docker
async def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBX_DOCKER_DIRECT", "0")
    async with await DockerBackend(image=PYTHON_IMAGE).create(timeout=120) as sandbox:
        before = written_by_shims()
        await sandbox.files.write("content", b"x" * SIZE)
        assert len(await sandbox.files.read("content")) == SIZE
        assert written_by_shims() - before >= 2 * SIZE


@pytest.mark.docker
@pytest.mark.usefixtures("may_enter")
async def test_process_that_may_not_enter_goes_through_the_engine(
    need: Callable[[str], None],
) -> None:
    need("setpriv")
    before = written_by_shims()
    with started(*WITHOUT_RIGHTS, sys.executable, "-c", MOVE, PYTHON_IMAGE, str(SIZE)) as process:
        assert process.stdout is not None
        with anyio.fail_after(ANSWER):
            line = await anyio.to_thread.run_sync(process.stdout.readline)
        assert line.strip() == str(SIZE)
        assert written_by_shims() - before >= 2 * SIZE
        process.communicate(timeout=ANSWER)


@pytest.mark.usefixtures("may_enter")
async def test_only_the_guest_itself_is_reached(need: Callable[[str], None]) -> None:
    need("unshare")
    command = ("unshare", "--net", sys.executable, "-c", LISTEN, repr(LISTENER))
    with started(*command) as process:
        assert process.stdout is not None
        line = await anyio.to_thread.run_sync(process.stdout.readline)
        guest, beside = map(int, line.split())
        assert await reach(beside) is None
        assert await reach(os.getpid()) is None
        sock = await reach(guest)
        assert sock is not None
        with sock:
            await anyio.wait_readable(sock)
            assert sock.recv(100) == b"hello"
        process.communicate(timeout=ANSWER)
    assert await reach(guest) is None


@pytest.fixture
def attached() -> Generator[tuple[socket.socket, DockerTransport], None, None]:
    """The engine's stream to a guest, and the guest's end of it."""
    ours, theirs = socket.socketpair()

    async def no_cause() -> None:
        return None

    transport = DockerTransport(FrameReader(ours), no_cause)
    yield theirs, transport
    transport.close()
    theirs.close()


@pytest.mark.docker
async def test_engine_that_is_stuck_does_not_hide_the_containers_end(
    engine: Any, attached: tuple[socket.socket, DockerTransport]
) -> None:
    """As when it holds more of an upload than the container read: it does not close the stream."""
    theirs, transport = attached
    sandbox = await DockerBackend(image=PYTHON_IMAGE).create(timeout=120)
    transport.watch(Ending(Engine(), sandbox.id))
    while transport.send_nowait(memoryview(bytes(1 << 16))):
        pass
    for wait in (transport.wait_sendable, transport.receive):
        with anyio.move_on_after(3 * END_POLL) as scope:
            await wait()
        assert scope.cancelled_caught  # it lives
    await anyio.to_thread.run_sync(lambda: engine.remove_container(sandbox.id, force=True))
    with anyio.fail_after(ANSWER):
        with pytest.raises(OSError, match="ended"):
            await transport.wait_sendable()
        assert await transport.receive() == b""
    assert theirs.fileno() >= 0
    await sandbox.kill()


@pytest.mark.docker
@pytest.mark.parametrize("turn", range(3))
async def test_upload_over_the_engine_ends_with_its_container(
    tmp_path: Path, engine: Any, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    """The engine gets stuck in some of them."""
    monkeypatch.setenv("SBX_DOCKER_DIRECT", "0")
    local = tmp_path / "local"
    with local.open("wb") as file:
        file.truncate(1 << 30)
    sandbox = await DockerBackend(image=PYTHON_IMAGE).create(timeout=120)
    before = written_by_shims()

    async def remove_under_way() -> None:
        while written_by_shims() - before < 32 << 20:  # noqa: ASYNC110 - a number of the kernel's
            await anyio.sleep(0.01)
        await anyio.to_thread.run_sync(lambda: engine.remove_container(sandbox.id, force=True))

    with anyio.fail_after(ANSWER):
        async with anyio.create_task_group() as group:
            group.start_soon(remove_under_way)
            with pytest.raises(SandboxGone):
                await sandbox.files.upload(local, "remote")
    await sandbox.kill()
