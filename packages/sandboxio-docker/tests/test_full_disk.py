"""Pulls that cannot be finished: the engine's disk is full, or the registry does not answer."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from docker_engine import Engine
from sandboxio.errors import CreateTimeout, DiskFull
from sandboxio_docker import DockerBackend

pytestmark = [pytest.mark.docker, pytest.mark.slow]

DISK = "64m"
LAYER = 100 << 20
"""Bytes; more than the disk has."""

START_SECONDS = 10.0
"""Seconds for a registry to listen."""

BOUND = 100.0
"""Seconds for what takes a few; the machine may be busy."""


@pytest.fixture
def small(root: None, tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine, None, None]:
    """An engine of its own on a small disk."""
    folder = tmp_path_factory.mktemp("s")  # short: paths of sockets are
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    engine = Engine(folder / "engine", host=f"unix://{folder}/d.sock", private=True)
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def registry(folder: Path, port: int, beside: Engine | None) -> Generator[str, None, None]:
    """Serve a folder, on this machine or in the network of an engine of its own."""
    config = folder / "config.yml"
    settings = {
        "version": "0.1",
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    config.write_text(json.dumps(settings))  # YAML is a superset of JSON
    inside = [] if beside is None else ["nsenter", f"--net=/proc/{beside.pid()}/ns/net"]
    process = subprocess.Popen(
        [*inside, "docker-registry", "serve", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        listens = f":{port:04X} 00000000:0000 0A"
        end = time.monotonic() + START_SECONDS
        while listens not in Path(f"/proc/{process.pid}/net/tcp").read_text():
            assert time.monotonic() < end, "docker-registry does not listen"
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=START_SECONDS)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def put(address: str, data: bytes) -> dict[str, object]:
    """Upload a blob, and describe it."""
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    post = urllib.request.Request(f"http://{address}/v2/large/blobs/uploads/", method="POST")
    with urllib.request.urlopen(post) as answer:
        where = answer.headers["Location"]
    headers = {"Content-Type": "application/octet-stream"}
    request = urllib.request.Request(f"{where}&digest={digest}", data, headers, method="PUT")
    urllib.request.urlopen(request).close()
    return {"size": len(data), "digest": digest}


def push_large_image(address: str) -> None:
    """Put an image with one layer that cannot be compressed into a registry."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo("large")
        entry.size = LAYER
        tar.addfile(entry, io.BytesIO(os.urandom(LAYER)))
    content = layer.getvalue()
    diff = f"sha256:{hashlib.sha256(content).hexdigest()}"
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [diff]},
    }
    kind = "application/vnd.docker"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.distribution.manifest.v2+json",
        "config": {
            "mediaType": f"{kind}.container.image.v1+json",
            **put(address, json.dumps(config).encode()),
        },
        "layers": [{"mediaType": f"{kind}.image.rootfs.diff.tar", **put(address, content)}],
    }
    request = urllib.request.Request(
        f"http://{address}/v2/large/manifests/1",
        json.dumps(manifest).encode(),
        {"Content-Type": manifest["mediaType"]},
        method="PUT",
    )
    urllib.request.urlopen(request).close()


@pytest.fixture
def stored(
    need: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, int]:
    """The folder of a registry that has a large image, and a port."""
    need("docker-registry")
    folder, port = tmp_path_factory.mktemp("registry"), free_port()
    with registry(folder, port, None) as address:
        push_large_image(address)
    return folder, port


async def test_full_disk_in_a_pull_is_told_and_leaves_nothing(
    small: Engine, stored: tuple[Path, int]
) -> None:
    with registry(*stored, small) as address, anyio.fail_after(BOUND):
        backend = DockerBackend(image=f"{address}/large:1", host=small.host)
        with pytest.raises(DiskFull, match="no space left") as caught:
            await backend.create(timeout=60)
        assert "docker system prune" in caught.value.hint
        assert small.docker("ps", "--all", "--quiet") == ""
        assert small.docker("image", "ls", "--quiet") == ""


async def test_pull_has_a_deadline_of_its_own() -> None:
    with socket.socket() as silent, anyio.fail_after(BOUND):
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        image = f"127.0.0.1:{silent.getsockname()[1]}/x:1"
        with pytest.raises(CreateTimeout, match=r"was not pulled within 0\.5 s") as caught:
            await DockerBackend(image=image, pull_timeout=0.5).create(timeout=60)
        assert "pull_timeout" in caught.value.hint
