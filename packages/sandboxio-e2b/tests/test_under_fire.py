"""Many things at once, cut off at any moment; nothing may be left and nothing may hang."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest

from sandboxio import SandboxError
from sandboxio.protocols import AsyncSandbox
from sandboxio_e2b import E2BBackend
from sandboxio_testing.e2b import LocalE2B

SEED = 20261129
BOUND = 110.0

SANDBOXES = 100 if len(os.sched_getaffinity(0)) >= 8 else 24
"""At once; each costs a few processes of this machine."""


def sockets() -> int:
    """Count the sockets of this process."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found += str(entry.readlink()).startswith("socket:")
        except OSError:
            continue
    return found


@pytest.mark.slow
async def test_200_cancelled_commands_leave_no_process(backend: E2BBackend) -> None:
    chance = random.Random(SEED)
    async with await backend.create(timeout=300) as sandbox:
        await sandbox.run(["true"])
        cancelled = 0
        with anyio.fail_after(BOUND):
            for _ in range(20):
                async with anyio.create_task_group() as group:
                    for _ in range(10):
                        delay = chance.uniform(0, 0.05)
                        group.start_soon(run_cancelled, sandbox, delay)
                        cancelled += 1
            assert cancelled == 200
            assert "sleep 4714" not in (await sandbox.run("ps ax")).stdout
            assert (await sandbox.run(["echo", "well"])).stdout == "well\n"


async def run_cancelled(sandbox: AsyncSandbox, delay: float) -> None:
    with anyio.move_on_after(delay):
        await sandbox.run("(setsid sleep 4714 &) ; sleep 4714 & sleep 4714")


@pytest.mark.slow
async def test_creates_cancelled_at_any_moment_leave_no_sandbox(
    backend: E2BBackend, server: LocalE2B
) -> None:
    chance = random.Random(SEED)
    with anyio.fail_after(BOUND):
        for _ in range(20):
            with anyio.move_on_after(chance.uniform(0, 0.3)):
                async with await backend.create(timeout=60) as sandbox:
                    await sandbox.run(["true"])
        assert not server.sandboxes


@pytest.mark.slow
async def test_many_sandboxes_at_once_and_no_socket_left(
    backend: E2BBackend, server: LocalE2B
) -> None:
    async def one(number: int) -> None:
        async with await backend.create(timeout=300) as sandbox:
            assert (await sandbox.run(["echo", str(number)])).stdout == f"{number}\n"
            done.append(number)

    done: list[int] = []
    async with await backend.create(timeout=60) as sandbox:
        await sandbox.run(["true"])
    before = sockets()
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for number in range(SANDBOXES):
                group.start_soon(one, number)
    assert sorted(done) == list(range(SANDBOXES))
    assert not server.sandboxes
    # The SDK keeps up to 20 idle connections for the next call, and each has two ends here.
    assert sockets() <= before + 2 * 20 + 4


EXITS = {
    "a refused connection": """
        os.environ["E2B_API_URL"] = "http://127.0.0.1:9"
        try:
            await sandboxio.create("e2b://", timeout=20)
        except sandboxio.SandboxError:
            pass
    """,
    "a sandbox that nobody ended": """
        sandbox = await sandboxio.create("e2b://", timeout=20)
        await sandbox.run(["true"])
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("what", EXITS)
def test_interpreter_exits_by_itself(what: str, server: LocalE2B) -> None:
    """Nothing keeps it, and the SDK's native threads do not abort it."""
    body = textwrap.indent(textwrap.dedent(EXITS[what]), "    ")
    script = f"import os, asyncio, sandboxio\nasync def main():\n{body}\nasyncio.run(main())"
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, timeout=60, check=False, text=True
        )
        assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    server.end_all()


async def test_sandbox_is_used_from_one_loop_after_another(server: LocalE2B) -> None:
    backend = E2BBackend()

    def in_a_loop_of_its_own() -> str:
        async def use() -> str:
            async with await backend.create(timeout=60) as sandbox:
                return (await sandbox.run(["echo", "well"])).stdout

        return anyio.run(use)

    outputs: list[str] = []

    async def one() -> None:
        outputs.append(await anyio.to_thread.run_sync(in_a_loop_of_its_own))

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(one)
    assert outputs == ["well\n"] * 4


async def test_connect_changes_no_lifetime_and_lists_page(
    backend: E2BBackend, server: LocalE2B, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sandboxio_e2b._client as client

    monkeypatch.setattr(client, "PAGE", 2)
    made = [await backend.create(timeout=60, metadata={"n": f"{n} & ="}) for n in range(5)]
    try:
        listed = await backend.list_managed()
        assert {item.sandbox_id for item in listed} >= {item.id for item in made}
        assert {item.labels["n"] for item in listed} == {f"{n} & =" for n in range(5)}
        before = server.ends_at(made[0].id)
        async with await backend.connect(made[0].id) as again:
            assert (await again.run(["echo", "well"])).stdout == "well\n"
        assert server.ends_at(made[0].id) == before
    finally:
        for sandbox in made:
            try:
                await sandbox.kill()
            except SandboxError:
                continue
