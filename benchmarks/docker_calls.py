"""Time the Docker backend beside docker-py and the Docker CLI, in one run on one engine.

    python benchmarks/docker_calls.py [IMAGE]

Prints medians in milliseconds, the middle half of the samples, and how many times faster we are; then
how fast a large file goes up and down, and how much the host's memory grows meanwhile.
"""

from __future__ import annotations

import io
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import randbytes
from typing import Any

import anyio
import docker

from sandboxio_docker import DockerBackend

IMAGE = "sandboxio-test-python:bookworm"
CREATES = 20
CALLS = 25
CONCURRENT = 300
BULK = 256 << 20
LARGE = 1 << 30
TRANSFERS = 3


def spread(samples: list[float]) -> str:
    low, middle, high = statistics.quantiles(samples, n=4)
    return f"{middle * 1e3:9.2f} ms  [{low * 1e3:.2f} to {high * 1e3:.2f}]"


def timed(call: Callable[[], object], times: int) -> list[float]:
    samples: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        samples.append(time.perf_counter() - began)
    return samples


async def atimed(call: Callable[[], Awaitable[object]], times: int) -> list[float]:
    samples: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        await call()
        samples.append(time.perf_counter() - began)
    return samples


def report(what: str, ours: list[float], theirs: dict[str, list[float]]) -> None:
    print(f"\n{what}\n  sandboxio        {spread(ours)}")
    for name, samples in theirs.items():
        ratio = statistics.median(samples) / statistics.median(ours)
        print(f"  {name:<16} {spread(samples)}  we are {ratio:.2f} times as fast")


def put(container: Any, name: str, data: bytes) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    container.put_archive("/work", archive.getvalue())


def get(container: Any, name: str) -> bytes:
    chunks, _ = container.get_archive(f"/work/{name}")
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


def bare_create(client: Any, image: str, network: str | None) -> float:
    began = time.perf_counter()
    container = client.containers.run(image, ["sleep", "60"], detach=True, network_mode=network)
    took = time.perf_counter() - began
    container.remove(force=True)
    return took


async def main(image: str) -> None:
    client: Any = docker.DockerClient(version="auto")
    backend = DockerBackend(image=image)
    ours: list[float] = []
    theirs: dict[str, list[float]] = {"docker-py run": [], "without network": []}
    for _ in range(CREATES):
        began = time.perf_counter()
        sandbox = await backend.create(timeout=60)
        await sandbox.run(["true"])
        ours.append(time.perf_counter() - began)
        await sandbox.kill()
        for samples, network in zip(theirs.values(), (None, "none"), strict=True):
            samples.append(bare_create(client, image, network))
    report("create and a first run", ours, theirs)

    async with await backend.create(timeout=900) as sandbox:
        container: Any = client.containers.get(sandbox.id)
        cli = ["docker", "exec", sandbox.id, "true"]
        report(
            'run(["true"])',
            await atimed(lambda: sandbox.run(["true"]), CALLS),
            {
                "docker-py exec": timed(lambda: container.exec_run(["true"]), CALLS),
                "docker exec": timed(
                    lambda: subprocess.run(cli, check=True, capture_output=True), CALLS
                ),
            },
        )
        report(
            'run_code("print(1)")',
            await atimed(lambda: sandbox.run_code("print(1)"), CALLS),
            {
                "docker-py exec": timed(
                    lambda: container.exec_run(["python3", "-c", "print(1)"]), CALLS
                )
            },
        )
        data = b"x" * 1000
        report(
            "files.write, 1 kB",
            await atimed(lambda: sandbox.files.write("small", data), CALLS),
            {"put_archive": timed(lambda: put(container, "small", data), CALLS)},
        )
        report(
            "files.read, 1 kB",
            await atimed(lambda: sandbox.files.read("small"), CALLS),
            {"get_archive": timed(lambda: get(container, "small"), CALLS)},
        )
        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(CONCURRENT):
                group.start_soon(sandbox.run, ["true"])
        took = time.perf_counter() - began
        print(f"\n{CONCURRENT} concurrent runs: {CONCURRENT / took:.0f} a second")
        await first_chunk(sandbox)
        await output(sandbox, container)


async def first_chunk(sandbox: Any) -> None:
    samples: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        async with sandbox.stream("echo x; sleep 5") as process:
            await anext(aiter(process))
            samples.append(time.perf_counter() - began)
    print(f"\nfirst chunk of a stream\n  sandboxio        {spread(samples)}")


async def output(sandbox: Any, container: Any) -> None:
    command = f"head -c {BULK} /dev/zero"
    began = time.perf_counter()
    size = 0
    async with sandbox.stream(command) as process:
        async for chunk in process:
            size += len(chunk.data)
    ours = size / (time.perf_counter() - began) / 1e6
    assert size == BULK
    began = time.perf_counter()
    size = sum(len(piece) for piece in container.exec_run(["sh", "-c", command], stream=True)[1])
    theirs = size / (time.perf_counter() - began) / 1e6
    print(f"\nstreamed output: {ours:.0f} MB/s, docker-py {theirs:.0f} MB/s ({ours / theirs:.2f})")


def grown() -> float:
    """How much this process has ever used, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def transfers(image: str, folder: Path) -> None:
    """Take a large file up and down again, both ways in turn."""
    client: Any = docker.DockerClient(version="auto")
    local, back, packed = folder / "local", folder / "back", folder / "packed.tar"
    with local.open("wb") as file:
        for _ in range(LARGE >> 20):
            file.write(randbytes(1 << 20))
    with tarfile.open(packed, "w") as tar:
        tar.add(local, "theirs")
    speeds: dict[str, list[float]] = {}

    def note(what: str, began: float) -> None:
        speeds.setdefault(what, []).append(LARGE / (time.perf_counter() - began) / (1 << 20))

    async with await DockerBackend(image=image).create(timeout=900) as sandbox:
        container: Any = client.containers.get(sandbox.id)
        before = grown()
        for turn in range(TRANSFERS):
            began = time.perf_counter()
            await sandbox.files.upload(local, "ours")
            note("upload", began)
            began = time.perf_counter()
            await sandbox.files.download("ours", back)
            note("download", began)
            assert back.stat().st_size == LARGE
            if turn == 0:
                print(
                    f"\nmemory of the host while 1 GiB goes up and down: +{grown() - before:.0f} MiB"
                )
            began = time.perf_counter()
            with packed.open("rb") as file:
                container.put_archive("/work", file)
            note("put_archive", began)
            began = time.perf_counter()
            with back.open("wb") as file:
                for piece in container.get_archive("/work/theirs")[0]:
                    file.write(piece)
            note("get_archive", began)
    for ours, theirs in (("upload", "put_archive"), ("download", "get_archive")):
        ratio = statistics.median(speeds[ours]) / statistics.median(speeds[theirs])
        figures = [f"{name} {sorted(map(round, speeds[name]))}" for name in (ours, theirs)]
        print(f"1 GiB, MiB/s: {figures[0]}, {figures[1]} ({ratio:.2f})")


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else IMAGE
    anyio.run(main, chosen)
    with tempfile.TemporaryDirectory() as temporary:
        anyio.run(transfers, chosen, Path(temporary))
