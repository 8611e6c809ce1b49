"""The local backend beside the bare mechanism: ``bwrap`` alone."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import anyio
from measure import Sample, interleave, verdict

import sandboxio
from sandboxio import AsyncSandbox, Resources

ROUNDS = 31
GIB = 1 << 30
ROOM = Resources(memory_mb=6144, disk_mb=4096)


def bwrap() -> str:
    """Return the program that the backend itself would take."""
    from sandboxio_local._bwrap import find

    return find().path


def bare_bwrap() -> list[str]:
    """Return the smallest sandbox that does what ours does: namespaces, /usr, no network."""
    command = [bwrap(), "--unshare-all", "--ro-bind", "/usr", "/usr", "--proc", "/proc"]
    for name in ("bin", "lib", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            command += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            command += ["--ro-bind", str(path), str(path)]
    return [*command, "--dev", "/dev", "true"]


async def latency(sandbox: AsyncSandbox) -> bool:
    """Measure one command against one bare bwrap, and a create against its bound."""
    command = bare_bwrap()

    async def bare() -> None:
        subprocess.run(command, check=True)

    async def run() -> None:
        (await sandbox.run(["true"])).raise_for_status()

    async def create() -> None:
        made = await sandboxio.create("local://")
        created.append(made)

    async def end() -> None:
        await created.pop().kill()

    created: list[AsyncSandbox] = []
    samples = await interleave(
        [("bare bwrap true", bare), ("run(['true'])", run), ("create", create), ("kill", end)],
        ROUNDS,
    )
    by_name: dict[str, Sample] = {sample.name: sample for sample in samples}
    for sample in samples:
        print(sample.describe())
    ratio = by_name["run(['true'])"].median / by_name["bare bwrap true"].median
    kept = verdict("run(['true']) / bare bwrap", ratio, 1, at_most=True)
    ready = by_name["create"].median * 1e3
    return verdict("create to ready", ready, 45, at_most=True, unit=" ms") and kept


async def concurrency(sandbox: AsyncSandbox) -> bool:
    """Measure many commands at once, and what they leave in this process."""

    async def many(count: int, command: list[str]) -> float:
        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(count):
                group.start_soon(sandbox.run, command)
        return time.perf_counter() - began

    await many(50, ["true"])
    rates = [300 / await many(300, ["true"]) for _ in range(5)]
    print("concurrent run(['true']) per second:", *(f"{rate:.0f}" for rate in sorted(rates)))
    kept = verdict("concurrent runs, median", sorted(rates)[2], 300, at_most=False, unit="/s")
    before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    took = await many(200, ["sleep", "2"])
    after = threading.active_count(), len(os.listdir("/proc/self/fd"))
    print(f"threads and descriptors before {before}, after {after}")
    return verdict("200 concurrent sleep 2", took, 6, at_most=True, unit=" s") and kept


async def throughput(sandbox: AsyncSandbox) -> bool:
    """Measure 1 GiB up, down and streamed, and how much this process grows by it."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results: dict[str, list[float]] = {"upload": [], "download": [], "stream": []}
    # Kept in memory, for a disk would be what is measured.
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="sandboxio-bench-") as folder:
        source, target = Path(folder, "up"), Path(folder, "down")
        with source.open("wb") as file:
            for _ in range(GIB >> 20):
                file.write(os.urandom(1 << 20))
        for _ in range(3):
            began = time.perf_counter()
            await sandbox.files.upload(source, "big")
            results["upload"].append(GIB / 1e6 / (time.perf_counter() - began))
            began = time.perf_counter()
            await sandbox.files.download("big", target)
            results["download"].append(GIB / 1e6 / (time.perf_counter() - began))
            target.unlink()
            await sandbox.files.remove("big")
            began = time.perf_counter()
            async with sandbox.stream(["head", "-c", str(GIB), "/dev/zero"]) as process:
                async for _chunk in process:
                    pass
            results["stream"].append(GIB / 1e6 / (time.perf_counter() - began))
    kept = True
    for name, rates in results.items():
        print(f"{name} MB/s:", *(f"{rate:.0f}" for rate in sorted(rates)))
        kept &= verdict(f"{name}, median", sorted(rates)[1], 300, at_most=False, unit=" MB/s")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1024
    return verdict("this process grew by", grown, 32, at_most=True, unit=" MiB") and kept


async def deadline(sandbox: AsyncSandbox) -> bool:
    """Measure when a timeout of 0.5 s is raised."""

    async def timeout() -> None:
        try:
            await sandbox.run("sleep 60 & sleep 60", timeout=0.5)
        except sandboxio.ExecutionTimeout:
            return
        raise AssertionError("no timeout")

    (sample,) = await interleave([("timeout of 0.5 s", timeout)], 9)
    print(sample.describe())
    return verdict("raised after", sample.median, 0.65, at_most=True, unit=" s")


async def main() -> None:
    """Measure everything."""
    async with await sandboxio.create("local://", resources=ROOM, timeout=600) as sandbox:
        kept = [
            await latency(sandbox),
            await deadline(sandbox),
            await concurrency(sandbox),
            await throughput(sandbox),
        ]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    anyio.run(main)
