"""A hundred sandboxes at once come, run a command and go, within what the end of one may take."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterator

import anyio
import pytest

from sandboxio.protocols import AsyncSandbox
from sandboxio_local import LocalBackend, _state

Until = Callable[[Callable[[], bool], float], Awaitable[None]]

MANY = 100

BOUND = 60.0
"""Seconds for all of them to come, to run a command, or to go after their owner; a caller that ends one
has a bound of its own."""

OWNER = """
import anyio
from sandboxio_local import LocalBackend

async def main():
    backend = LocalBackend()

    made = []

    async def one():
        made.append(await backend.create(timeout=300))
        print(made[-1].id, flush=True)

    async with anyio.create_task_group() as group:
        for _ in range({many}):
            group.start_soon(one)
    await anyio.sleep(300)

anyio.run(main)
"""


def left_of(ids: list[str]) -> list[str]:
    return [one for one in ids if _state.StateDirectory.find(one) is not None]


async def at_once(work: Callable[[AsyncSandbox], Awaitable[None]], of: list[AsyncSandbox]) -> None:
    async with anyio.create_task_group() as group:
        for sandbox in of:
            group.start_soon(work, sandbox)


@pytest.mark.slow
async def test_a_hundred_are_ended_at_once() -> None:
    backend = LocalBackend()
    sandboxes: list[AsyncSandbox] = []

    async def create() -> None:
        sandboxes.append(await backend.create(timeout=300))

    async def run(sandbox: AsyncSandbox) -> None:
        assert (await sandbox.run(["echo", sandbox.id])).stdout == f"{sandbox.id}\n"

    async def kill(sandbox: AsyncSandbox) -> None:
        await sandbox.kill()

    try:
        with anyio.fail_after(BOUND):
            async with anyio.create_task_group() as group:
                for _ in range(MANY):
                    group.start_soon(create)
            await at_once(run, sandboxes)
    finally:
        await at_once(kill, sandboxes)
    assert len(sandboxes) == MANY
    assert left_of([sandbox.id for sandbox in sandboxes]) == []


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[str]]:
    """Another process that makes them, and says who they are."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER.format(many=MANY))],
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        yield owner
        owner.kill()


@pytest.mark.slow
async def test_a_hundred_of_a_killed_owner_are_gone(
    owner: subprocess.Popen[str], until: Until
) -> None:
    assert owner.stdout is not None
    ids = [owner.stdout.readline().strip() for _ in range(MANY)]
    assert left_of(ids) == ids
    owner.kill()
    await until(lambda: left_of(ids) == [], BOUND)
