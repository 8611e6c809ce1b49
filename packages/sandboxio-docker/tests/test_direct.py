"""The way to a guest past the engine: what is mounted for it, who may use it, and what is left of it."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import docker.errors
import pytest

from dockerd import PYTHON_IMAGE
from sandboxio.errors import SandboxGone
from sandboxio.models import IsolationTier
from sandboxio_docker import DockerBackend
from sandboxio_docker._client import Engine
from sandboxio_docker._door import INSIDE, PREFIX, Door, Doors
from sandboxio_docker._ending import Ending
from sandboxio_docker._endpoint import Endpoint
from sandboxio_docker._transport import END_POLL, DockerTransport, FrameReader

pytestmark = pytest.mark.anyio

HERE = Endpoint("unix:///var/run/docker.sock", "a test")

ANSWER = 60.0
"""Seconds for another process to do its part."""

OWNER = """
import sys, anyio
from sandboxio_docker import DockerBackend

async def main(image):
    sandbox = await DockerBackend(image=image).create(timeout=120)
    print(sandbox.id, flush=True)
    await anyio.to_thread.run_sync(sys.stdin.readline)

anyio.run(main, *sys.argv[1:])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path, None, None]:
    """The directory for temporary files, for this test alone."""
    # Not pytest's own, whose path is too long for a socket.
    own = Path(tempfile.mkdtemp(prefix="sbx-door-"))
    monkeypatch.setenv("TMPDIR", str(own))
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    yield own
    shutil.rmtree(own)


def started(*command: str) -> subprocess.Popen[str]:
    """Run a program in a process of its own."""
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def doors(folder: Path) -> list[Path]:
    return list(folder.glob(f"{PREFIX}*"))


@pytest.mark.docker
async def test_one_socket_is_mounted_and_nobody_listens_at_it(folder: Path, engine: Any) -> None:
    async with await DockerBackend(image=PYTHON_IMAGE).create(timeout=120) as sandbox:
        (mount,) = engine.inspect_container(sandbox.id)["Mounts"]
        assert mount["Destination"] == INSIDE
        assert mount["RW"] is False
        assert any(INSIDE in note for note in sandbox.policy.notes)
        (own,) = doors(folder)
        assert own.stat().st_mode & 0o077 == 0
        assert Path(mount["Source"]).parent == own
        code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        refused = await sandbox.run(["python3", "-c", code, INSIDE])
        assert "ConnectionRefusedError" in refused.stderr
        written = await sandbox.run(["sh", "-c", f"rm {INSIDE} || touch {INSIDE}/x"])
        assert not written.ok
    assert doors(folder) == []


@pytest.mark.docker
async def test_frames_do_not_pass_the_engine(folder: Path, engine: Any) -> None:
    size = 8 << 20
    async with await DockerBackend(image=PYTHON_IMAGE).create(timeout=120) as sandbox:
        before = written_by_shims()
        result = await sandbox.run(["sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x | wc -c"])
        assert result.stdout.strip() == str(size)
        await sandbox.files.write("content", b"x" * size)
        assert len(await sandbox.files.read("content")) == size
        assert written_by_shims() - before < size // 2


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


@pytest.mark.docker
async def test_engine_still_copies_into_and_out_of_the_container(folder: Path) -> None:
    async with await DockerBackend(image=PYTHON_IMAGE).create(timeout=120) as sandbox:
        await sandbox.files.write("content", "from the guest")
        container: Any = sandbox.native
        chunks, _ = container.get_archive("/work/content")
        archive = b"".join(chunks)
        assert b"from the guest" in archive
        assert container.put_archive("/tmp", archive)
        assert await sandbox.files.read("/tmp/content") == b"from the guest"


@pytest.mark.docker
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
async def test_forgotten_sandbox_takes_its_door_along(folder: Path) -> None:
    sandbox = await DockerBackend(image=PYTHON_IMAGE).create(timeout=120)
    native: Any = sandbox.native
    assert len(doors(folder)) == 1
    del sandbox
    gc.collect()
    assert doors(folder) == []
    with suppress(docker.errors.NotFound):
        native.wait(condition="removed", timeout=ANSWER)


@pytest.mark.docker
@pytest.mark.parametrize("killed", [False, True])
async def test_no_door_outlives_its_process(folder: Path, killed: bool) -> None:
    process = started(sys.executable, "-c", OWNER, PYTHON_IMAGE)
    assert process.stdin is not None
    assert process.stdout is not None
    with anyio.fail_after(ANSWER):
        assert await anyio.to_thread.run_sync(process.stdout.readline)
    assert len(doors(folder)) == 1
    if killed:
        process.send_signal(signal.SIGKILL)
    process.communicate(timeout=ANSWER)
    backend = DockerBackend(image=PYTHON_IMAGE)
    if killed:
        # Nobody was there to do it.
        assert len(doors(folder)) == 1
        await backend.list_managed()
    assert doors(folder) == []


@pytest.mark.docker
async def test_door_of_a_living_process_stays(folder: Path) -> None:
    async with await DockerBackend(image=PYTHON_IMAGE).create(timeout=120):
        before = doors(folder)
        other = "import anyio; from sandboxio_docker import DockerBackend as B; anyio.run(B().list_managed)"
        process = started(sys.executable, "-c", other)
        process.communicate(timeout=ANSWER)
        assert process.returncode == 0
        assert doors(folder) == before != []


@pytest.mark.docker
async def test_long_path_leaves_the_engines_stream(
    folder: Path, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = folder / ("x" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    async with await DockerBackend(image=PYTHON_IMAGE).create(timeout=120) as sandbox:
        assert engine.inspect_container(sandbox.id)["Mounts"] == []
        assert (await sandbox.run(["echo", "served"])).stdout == "served\n"
    assert doors(deep) == []


@pytest.mark.docker
async def test_lease_turned_off_leaves_the_engines_stream(
    folder: Path, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_DOCKER_REAPER", "0")
    async with await DockerBackend(image=PYTHON_IMAGE).create(timeout=120) as sandbox:
        assert engine.inspect_container(sandbox.id)["Mounts"] == []
        assert doors(folder) == []


@pytest.mark.docker
async def test_engine_that_cannot_see_the_folder_is_asked_once(
    folder: Path, need: Callable[[str], None]
) -> None:
    """A process with a file system of its own for temporary files, as in a container."""
    need("unshare")
    if os.geteuid() != 0:
        pytest.skip("a mount namespace of its own needs root")
    program = """
import os, sys, anyio
from sandboxio_docker import DockerBackend

async def main(image):
    backend = DockerBackend(image=image)
    for _ in range(2):
        async with await backend.create(timeout=120) as sandbox:
            print((await sandbox.run(["echo", "served"])).stdout.strip(), sandbox.native.attrs["Mounts"])
    print(os.listdir(os.environ["TMPDIR"]))

anyio.run(main, *sys.argv[1:])
"""
    script = f'mount -t tmpfs none {folder} && exec "$0" "$@"'
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        script,
        sys.executable,
        "-c",
        program,
        PYTHON_IMAGE,
    ]
    output, _ = started(*command).communicate(timeout=ANSWER)
    assert output.splitlines() == ["served []", "served []", "[]"]


@pytest.mark.parametrize(
    ("url", "isolation"),
    [
        ("tcp://127.0.0.1:2375", IsolationTier.CONTAINER),
        ("ssh://somewhere", IsolationTier.CONTAINER),
        (HERE.url, IsolationTier.GVISOR),
        (HERE.url, IsolationTier.MICROVM),
        (HERE.url, IsolationTier.UNKNOWN),
    ],
)
async def test_no_door_where_no_guest_could_come_in(
    folder: Path, url: str, isolation: IsolationTier
) -> None:
    assert Doors().open(Endpoint(url, "a test"), isolation) is None
    assert doors(folder) == []


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


def said(stream: int, data: bytes) -> bytes:
    """Return what an engine makes of output."""
    return struct.pack(">II", stream << 24, len(data)) + data


async def test_guest_that_speaks_through_the_engine_is_heard(
    folder: Path, attached: tuple[socket.socket, DockerTransport]
) -> None:
    theirs, transport = attached
    door = Doors().open(HERE, IsolationTier.CONTAINER)
    assert door is not None
    # What the interpreter complains about is not the guest.
    theirs.sendall(said(2, b"a warning") + said(1, b"hello"))
    with anyio.fail_after(ANSWER):
        assert await door.meet(transport) is transport
        assert await transport.receive() == b"hello"
    assert transport.diagnostic == b"a warning"
    door.close()
    assert doors(folder) == []


async def test_guest_that_comes_in_is_heard_and_its_end_is_the_engines_word(
    folder: Path, attached: tuple[socket.socket, DockerTransport]
) -> None:
    theirs, transport = attached
    door = Doors().open(HERE, IsolationTier.CONTAINER)
    assert door is not None
    path = door.mount["Source"]
    guest = socket.socket(socket.AF_UNIX)
    guest.connect(path)
    theirs.sendall(said(2, b"a warning"))
    with anyio.fail_after(ANSWER):
        direct = await door.meet(transport)
        assert direct is not transport
        guest.sendall(b"hello")
        assert await direct.receive() == b"hello"
        assert direct.send_nowait(memoryview(b"answer")) == 6
        assert guest.recv(100) == b"answer"
        with pytest.raises(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as late:
            late.connect(path)
        guest.close()
        theirs.sendall(said(1, b"not a word of the guest's"))
        theirs.close()
        assert await direct.receive() == b""
    direct.close()
    door.close()


async def test_door_waits_for_the_guest_as_long_as_it_may(
    folder: Path, attached: tuple[socket.socket, DockerTransport]
) -> None:
    _, transport = attached
    door = Door(Path(tempfile.mkdtemp(prefix=PREFIX)))
    with anyio.move_on_after(0.05) as scope:
        await door.meet(transport)
    assert scope.cancelled_caught
    door.close()
    assert doors(folder) == []


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
    folder: Path, engine: Any, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    """The engine gets stuck in some of them."""
    monkeypatch.setenv("SBX_DOCKER_REAPER", "0")
    local = folder / "local"
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
