"""What the tests of the Docker adapter share: images, backends, and that nothing is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest

import docker_engine
import dockerd
from dockerd import BUSYBOX_IMAGE, PYTHON_IMAGE
from sandboxio_docker import DockerBackend

SESSION = f"io.sandboxio.session={os.getpid()}"


@pytest.fixture(scope="session")
def engine() -> Generator[Any, None, None]:
    """The Engine API, without the adapter."""
    client: Any = docker.DockerClient(version="auto", timeout=30)
    yield client.api
    client.close()


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left() -> Generator[None, None, None]:
    """No container of this process, and no network or volume that was not there before."""
    if not dockerd.answers():
        yield
        return
    client: Any = docker.DockerClient(version="auto", timeout=30)
    try:
        before = others(client.api)
        yield
        left = client.api.containers(all=True, filters={"label": SESSION})
        assert [container["Names"] for container in left] == []
        assert others(client.api) == before
    finally:
        client.close()


def others(api: Any) -> tuple[list[str], list[str], list[str]]:
    """Names of networks and volumes, and of images as these tests make and pull them."""
    networks = sorted(network["Name"] for network in api.networks())
    volumes = sorted(volume["Name"] for volume in api.volumes()["Volumes"] or ())
    tags = [tag for image in api.images() for tag in image["RepoTags"] or ()]
    made = sorted(tag for tag in tags if tag.startswith(("sandboxio-test-variant", "127.0.0.1:")))
    return networks, volumes, made


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy engine take its time to remove a container."""
    monkeypatch.setenv("SBX_TEARDOWN_GRACE", "20")


@pytest.fixture(scope="session")
def need() -> Callable[[str], None]:
    """Skips without a program of Debian's, by name; fails if an engine was promised here."""

    def check(program: str) -> None:
        if shutil.which(program) is None:
            reason = f"{program}: not installed"
            pytest.fail(reason) if dockerd.promised() else pytest.skip(reason)

    return check


@pytest.fixture(scope="session")
def root(need: Callable[[str], None]) -> None:
    """Skips where no engine of its own can be started; fails if one was promised here."""
    need("dockerd")
    if os.geteuid() != 0:
        reason = "an engine of its own needs root"
        pytest.fail(reason) if dockerd.promised() else pytest.skip(reason)


@pytest.fixture(scope="module")
def private(
    root: None, tmp_path_factory: pytest.TempPathFactory
) -> Generator[docker_engine.Engine, None, None]:
    """An engine that may be stopped, with the images of the tests."""
    folder = tmp_path_factory.mktemp("e")
    engine = docker_engine.Engine(folder, host=f"unix://{folder}/d.sock", private=True)
    engine.start()
    try:
        images = [PYTHON_IMAGE, BUSYBOX_IMAGE]
        saved = subprocess.run(["docker", "save", *images], check=True, capture_output=True)
        engine.docker("load", stdin=saved.stdout)
        yield engine
    finally:
        engine.stop()


@pytest.fixture
def backend() -> DockerBackend:
    """A backend whose default image has Python."""
    return DockerBackend(image=PYTHON_IMAGE)


@pytest.fixture(params=[PYTHON_IMAGE, BUSYBOX_IMAGE], ids=["guest", "exec"])
def either(request: pytest.FixtureRequest) -> DockerBackend:
    """A backend with a guest, and one without."""
    return DockerBackend(image=request.param)


def exists(api: Any, ref: str) -> bool:
    """Whether the engine has a container."""
    try:
        api.inspect_container(ref)
    except docker.errors.NotFound:
        return False
    return True


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="session")
def certificates(
    need: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Folders as DOCKER_CERT_PATH names them: of an authority for both sides, and of a stranger."""
    need("openssl")
    folders: dict[str, Path] = {}
    for owner in ("ours", "strange"):
        folder = folders[owner] = tmp_path_factory.mktemp(owner)
        new = ["req", "-newkey", "rsa:2048", "-nodes", "-subj"]
        openssl(folder, *new, "/CN=authority", "-x509", "-keyout", "ca-key.pem", "-out", "ca.pem")
        for who, usage in (("server", "serverAuth"), ("client", "clientAuth")):
            openssl(folder, *new, f"/CN={who}", "-keyout", f"{who}-key.pem", "-out", f"{who}.csr")
            (folder / "ext").write_text(
                f"subjectAltName = IP:127.0.0.1\nextendedKeyUsage = {usage}\n"
            )
            signed = ["-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-extfile", "ext"]
            openssl(folder, "x509", "-req", "-in", f"{who}.csr", *signed, "-out", f"{who}-cert.pem")
        shutil.copy(folder / "client-cert.pem", folder / "cert.pem")
        shutil.copy(folder / "client-key.pem", folder / "key.pem")
    return folders
