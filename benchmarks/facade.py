"""What the sync facade adds to the async API: for a call, and for each chunk of a stream.

The two take turns on the same machine, so that what else it does hits both. The bound is a
tripwire for a mistake of a whole order, not a promise: a hop between threads costs what it costs.
"""

from __future__ import annotations

import sys
import time

import anyio
from measure import Sample, interleave, verdict

import sandboxio
from sandboxio import AsyncSandbox, Sandbox
from sandboxio._api.sync_portal import Portal

ROUNDS = 300
STREAMS = 15
CHUNKS = 200
BOUND = 2000.0
"""Microseconds of an empty call, which takes less than a tenth of it on a quiet machine."""

STREAM = f"i=0; while [ $i -lt {CHUNKS} ]; do echo x; i=$((i+1)); read -r _ || exit 1; done"
"""Waits for an answer after each line, so that each is a chunk of its own."""


async def nothing() -> None:
    """Do nothing, in the loop."""


def sync_chunks(sandbox: Sandbox) -> float:
    """Return the seconds from one chunk to the next, with an answer in between."""
    with sandbox.stream(STREAM, stdin=sandboxio.PIPE) as process:
        began = time.perf_counter()
        for _ in process:
            process.send("\n")
        return (time.perf_counter() - began) / CHUNKS


async def async_chunks(sandbox: AsyncSandbox) -> float:
    """Return the same without the facade."""
    async with sandbox.stream(STREAM, stdin=sandboxio.PIPE) as process:
        began = time.perf_counter()
        async for _ in process:
            await process.send("\n")
        return (time.perf_counter() - began) / CHUNKS


async def nobody(*_: object) -> None:
    """Tear nothing down."""


async def measure(sync: Sandbox, other: AsyncSandbox, portal: Portal) -> list[Sample]:
    """Measure each way in turn."""

    async def hop() -> None:
        portal.call(nothing)

    async def run() -> None:
        await other.run(["true"])

    async def sync_run() -> None:
        sync.run(["true"])

    ways = [
        ("an empty call", hop),
        ("run(['true']), async", run),
        ("run(['true']), sync", sync_run),
    ]
    samples = await interleave(ways, ROUNDS)
    chunks: dict[str, list[float]] = {"async": [], "sync": []}
    for _ in range(STREAMS):
        chunks["async"].append(await async_chunks(other))
        chunks["sync"].append(sync_chunks(sync))
    return samples + [
        Sample(f"a chunk and its answer, {name}", tuple(times)) for name, times in chunks.items()
    ]


async def main() -> bool:
    """Print what each way takes, and the difference."""
    portal = Portal(nobody)
    with sandboxio.create_sync("local://", timeout=600) as sync:
        async with await sandboxio.create("local://", timeout=600) as other:
            samples = await measure(sync, other, portal)
    portal.close()
    for sample in samples:
        print(sample.describe(unit=1e6, suffix="us"))
    hop, run, sync_run, chunk, sync_chunk = [sample.median * 1e6 for sample in samples]
    print(f"the facade adds {sync_run - run:.0f} us to a call")
    # Two hops: the chunk, and the answer.
    print(f"and {(sync_chunk - chunk) / 2:.0f} us to a chunk")
    return verdict("an empty call", hop, BOUND, at_most=True, unit=" us")


if __name__ == "__main__":
    sys.exit(0 if anyio.run(main) else 1)
