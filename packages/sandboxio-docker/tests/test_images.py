"""Images are pulled from a registry of this machine, and what they declare is honoured."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

from dockerd import BUSYBOX_IMAGE, PYTHON_IMAGE
from sandboxio.errors import AuthError, CapabilityNotSupported, CreationError
from sandboxio_docker import DockerBackend

pytestmark = pytest.mark.docker


# A registry on this machine listens within a fraction of a second.
START_SECONDS = 10.0

# "tester" and "secret", as bcrypt; the login itself is never made.
HTPASSWD = "tester:$2y$05$.9y0jFvXjyT0m0Vq8dK3WeRk8r9cJ0e8bN0w9yqJ3C4m2m6rTtq5K\n"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def serve(folder: Path, auth: bool) -> tuple[subprocess.Popen[bytes], str]:
    port = free_port()
    settings: dict[str, Any] = {
        "version": "0.1",
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    if auth:
        (folder / "users").write_text(HTPASSWD)
        settings["auth"] = {"htpasswd": {"realm": "here", "path": str(folder / "users")}}
    (folder / "config.yml").write_text(json.dumps(settings))  # YAML is a superset of JSON
    process = subprocess.Popen(
        ["docker-registry", "serve", str(folder / "config.yml")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return process, f"127.0.0.1:{port}"


@pytest.fixture(params=[False], ids=["open"])
def registry(
    request: pytest.FixtureRequest,
    need: Callable[[str], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[str, None, None]:
    need("docker-registry")
    yield from running(tmp_path_factory.mktemp("registry"), auth=request.param)


@pytest.fixture
def closed_registry(
    need: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> Generator[str, None, None]:
    need("docker-registry")
    yield from running(tmp_path_factory.mktemp("registry"), auth=True)


def running(folder: Path, *, auth: bool) -> Generator[str, None, None]:
    process, address = serve(folder, auth)
    try:
        anyio.run(listening, address)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=10)


async def listening(address: str) -> None:
    host, _, port = address.partition(":")
    with anyio.fail_after(START_SECONDS):
        while True:
            try:
                async with await anyio.connect_tcp(host, int(port)):
                    return
            except OSError:
                await anyio.sleep(0.05)


@pytest.fixture
def pushed(registry: str, engine: Any) -> Generator[str, None, None]:
    """An image that is in the registry and not in the engine."""
    name = f"{registry}/busybox"
    engine.tag(BUSYBOX_IMAGE, name, "1")
    answers = engine.push(name, tag="1", stream=True, decode=True)
    assert not [answer for answer in answers if "error" in answer]
    engine.remove_image(f"{name}:1")
    yield f"{name}:1"
    engine.remove_image(f"{name}:1")


async def test_missing_image_is_pulled(pushed: str) -> None:
    async with await DockerBackend(image=pushed).create(timeout=60) as sandbox:
        assert (await sandbox.run(["echo", "pulled"])).stdout == "pulled\n"


def test_pull_is_one_line_where_there_is_no_terminal(pushed: str) -> None:
    words = [sys.executable, "-m", "sandboxio._cli", "demo", "--backend", f"docker://{pushed}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=90)
    # There is no Python in this image, so the demo has something to fail for; its sandbox works.
    assert "ok   create" in done.stdout
    assert done.stderr.count("Pulling the image") == 1
    assert f"Pulling the image {pushed} ...\n" in done.stderr


async def test_nothing_is_pulled_when_that_is_not_wanted(registry: str) -> None:
    with pytest.raises(CreationError, match="does not have the image"):
        await DockerBackend(image=f"{registry}/none:1", pull="never").create()


async def test_image_that_the_registry_does_not_have(registry: str) -> None:
    with pytest.raises(CreationError, match="does not have this image") as caught:
        await DockerBackend(image=f"{registry}/none:1").create()
    assert caught.value.retryable is False


async def test_image_that_needs_a_login(closed_registry: str) -> None:
    with pytest.raises(AuthError, match="login"):
        await DockerBackend(image=f"{closed_registry}/private:1").create()


async def test_image_without_a_build_for_this_platform(registry: str) -> None:
    manifests = "application/vnd.docker.distribution.manifest.list.v2+json"
    body = {"schemaVersion": 2, "mediaType": manifests, "manifests": []}
    request = urllib.request.Request(
        f"http://{registry}/v2/other/manifests/1",
        json.dumps(body).encode(),
        {"Content-Type": manifests},
        method="PUT",
    )
    await anyio.to_thread.run_sync(lambda: urllib.request.urlopen(request).close())
    with pytest.raises(CapabilityNotSupported, match="platform"):
        await DockerBackend(image=f"{registry}/other:1").create()


async def test_registry_that_does_not_answer() -> None:
    with pytest.raises(CreationError, match="does not answer") as caught:
        await DockerBackend(image=f"127.0.0.1:{free_port()}/x:1").create()
    assert caught.value.retryable is True


@pytest.fixture
def built(engine: Any) -> Generator[Any, None, None]:
    """Makes images with other settings of an image that is there."""
    made: list[str] = []

    def build(base: str, *lines: str) -> str:
        name = f"sandboxio-test-variant:{len(made)}"
        source = io.BytesIO("\n".join((f"FROM {base}", *lines)).encode())
        for answer in engine.build(fileobj=source, tag=name, rm=True, forcerm=True, decode=True):
            assert "error" not in answer, answer
        made.append(name)
        return name

    yield build
    for name in made:
        engine.remove_image(name, force=True)


@pytest.mark.parametrize("base", [PYTHON_IMAGE, BUSYBOX_IMAGE], ids=["guest", "exec"])
@pytest.mark.parametrize("user", ["1234:1235", "1234"])
async def test_user_of_the_image_owns_the_working_directory(
    base: str, user: str, built: Any
) -> None:
    image = built(base, f"USER {user}", 'ENTRYPOINT ["false"]')
    async with await DockerBackend(image=image).create(timeout=60) as sandbox:
        assert (await sandbox.run("id -u; pwd")).stdout == "1234\n/work\n"
        await sandbox.files.write("mine", "x")
        assert (await sandbox.run(["cat", "mine"])).stdout == "x"


async def test_named_user_and_workdir_of_the_image(built: Any) -> None:
    image = built(PYTHON_IMAGE, "USER nobody", "WORKDIR /srv")
    async with await DockerBackend(image=image).create(timeout=60) as sandbox:
        assert (await sandbox.run("id -un; pwd; touch /work/x && echo ok")).stdout == (
            "nobody\n/srv\nok\n"
        )
