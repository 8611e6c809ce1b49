"""What moves through the host stays out of its memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxio.protocols import AsyncSandbox

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

GROWTH = 32 * MIB
"""What one transfer may add to the host's memory, windows, buffers and all."""

BOUND = 100
"""Seconds for what takes a few; the machine may be busy."""


def resident() -> int:
    """Bytes of this process that are in memory; their peak counts from here."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def peak() -> int:
    """The most bytes since `resident` was asked."""
    return memory("VmHWM")


def memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * KIB
    raise AssertionError(field)


def inside(sandbox: AsyncSandbox, path: str) -> Path:
    """Where a file of the sandbox is on this host."""
    native: Any = sandbox.native
    found: Path = native.workdir / path
    return found


def make_sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size - 3)
        file.write(b"end")


def ends(path: Path, size: int) -> bool:
    """Whether it has that size and the content of `make_sparse`."""
    with path.open("rb") as file:
        file.seek(-4, os.SEEK_END)
        return (file.tell(), file.read()) == (size - 4, b"\0end")


async def test_endless_output_is_streamed_in_constant_memory(sandbox: AsyncSandbox) -> None:
    before, taken = resident(), 0
    async with sandbox.stream(["cat", "/dev/zero"]) as process:
        with anyio.fail_after(BOUND):
            async for chunk in process:
                taken += len(chunk.data)
                if taken > 512 * MIB:
                    break
    assert peak() - before < GROWTH


async def test_output_that_nobody_reads_is_not_taken(sandbox: AsyncSandbox) -> None:
    before = resident()
    async with sandbox.stream(["cat", "/dev/zero"]), sandbox.stream(["cat", "/dev/zero"]):
        for _ in range(50):  # these read for everybody meanwhile
            assert (await sandbox.run(["true"])).ok
    assert peak() - before < GROWTH


@pytest.mark.slow
@pytest.mark.timeout(600)  # it writes gibibytes, on whatever disk there is
async def test_sparse_file_of_two_gibibytes_is_downloaded_in_constant_memory(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    make_sparse(inside(sandbox, "sparse"), 2 * GIB)
    before = resident()
    await sandbox.files.download("sparse", tmp_path / "sparse")
    assert peak() - before < GROWTH
    assert ends(tmp_path / "sparse", 2 * GIB)
    (tmp_path / "sparse").unlink()


@pytest.mark.slow
@pytest.mark.timeout(600)  # it writes gibibytes, on whatever disk there is
async def test_large_file_is_uploaded_in_constant_memory(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    make_sparse(tmp_path / "sparse", GIB)
    before = resident()
    await sandbox.files.upload(tmp_path / "sparse", "sparse")
    assert peak() - before < GROWTH
    assert ends(inside(sandbox, "sparse"), GIB)
    (tmp_path / "sparse").unlink()
