"""Files of any content and size, through requests that carry text, in constant memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from sandboxio.protocols import AsyncSandbox
from sandboxio_e2b import E2BBackend

MIB = 1 << 20
SIZE = 32 * MIB

GROWTH = 24 * MIB
"""What a transfer may add to the memory of this process, which the server shares."""

BOUND = 110.0


@pytest.fixture
async def sandbox(backend: E2BBackend) -> AsyncGenerator[AsyncSandbox, None]:
    async with await backend.create(timeout=600) as made:
        assert (await made.run(["true"])).ok
        yield made


def memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)


class Growth:
    """How much memory this process takes beyond what it has when this is made."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # peaks count from here
        self._before = memory("VmRSS")

    @property
    def peak(self) -> int:
        return memory("VmHWM") - self._before


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.mark.slow
async def test_large_file_goes_both_ways_in_constant_memory(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    with source.open("wb") as file:
        for _ in range(SIZE // MIB):
            file.write(os.urandom(MIB))
    with anyio.fail_after(BOUND):
        growth = Growth()
        await sandbox.files.upload(source, "large")
        assert growth.peak < GROWTH
        growth = Growth()
        await sandbox.files.download("large", copy)
        assert growth.peak < GROWTH
        told = await sandbox.run(["sha256sum", "large"])
    assert told.stdout.split()[0] == digest(source) == digest(copy)


async def test_every_byte_and_every_pair_of_bytes_arrives(sandbox: AsyncSandbox) -> None:
    """E2B decodes what a command writes, and replaces what is not UTF-8."""
    pairs = bytes(byte for first in range(256) for second in range(256) for byte in (first, second))
    with anyio.fail_after(BOUND):
        await sandbox.files.write("pairs", pairs)
        assert await sandbox.files.read("pairs") == pairs
        seen = b""
        async with sandbox.stream(["cat", "pairs"]) as process:
            async for chunk in process:
                seen += chunk.data
        assert seen == pairs
        echoed = b""
        async with sandbox.stream(["cat"], stdin=pairs) as process:
            async for chunk in process:
                echoed += chunk.data
        assert echoed == pairs
