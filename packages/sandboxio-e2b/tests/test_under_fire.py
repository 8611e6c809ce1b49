"""Many things at once, cut off at any moment; nothing may be left and nothing may hang."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import textwrap
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from sandboxio.protocols import AsyncSandbox
from sandboxio_e2b import E2BBackend
from sandboxio_e2b._driver import E2BDriver
from sandboxio_testing.e2b import Fault, LocalE2B

SEED = 20261129
BOUND = 110.0

SANDBOXES = int(os.environ.get("SBX_TEST_SANDBOXES", "100"))
"""At once; each costs a few processes of this machine."""

CREATES = 100
"""That are cancelled, on each of the two event loops."""

AT_ONCE = 5
"""Of those creates."""


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
        for _ in range(CREATES // AT_ONCE):
            async with anyio.create_task_group() as group:
                for _ in range(AT_ONCE):
                    group.start_soon(create_cancelled, backend, chance.uniform(0, 0.5))
        await none_is_left(server)


async def create_cancelled(backend: E2BBackend, delay: float) -> None:
    with anyio.move_on_after(delay):
        # For longer than a test waits until there is none: one that is left must not end by itself.
        async with await backend.create(timeout=300) as sandbox:
            await sandbox.run(["true"])


async def none_is_left(server: LocalE2B) -> None:
    """Return when every sandbox that was made is ended; the caller bounds it."""
    while server.sandboxes or server.busy:  # noqa: ASYNC110 - the server has no event for it
        await anyio.sleep(0.05)


@pytest.mark.parametrize("route", ["POST /v2/sandboxes", "GET /sandboxes/*"])
@pytest.mark.parametrize("lost", [False, True], ids=["answered", "reply lost"])
async def test_create_cancelled_in_the_middle_of_a_request_leaves_no_sandbox(
    backend: E2BBackend, server: LocalE2B, route: str, lost: bool
) -> None:
    server.add(Fault(route=route, delay=0.5, drop="head" if lost else None))
    method, _, path = route.partition(" ")
    asked_before = len(server.seen())

    def is_asked() -> bool:
        return any(
            request.method == method and request.path.startswith(path.rstrip("*"))
            for request in server.seen()[asked_before:]
        )

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(create_cancelled, backend, BOUND)
            while not is_asked():  # noqa: ASYNC110 - the server has no event for it
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        await none_is_left(server)


async def test_create_cancelled_before_its_answer_is_taken_leaves_no_sandbox(
    backend: E2BBackend, server: LocalE2B
) -> None:
    server.add(Fault(route="GET /sandboxes/*", delay=0.5))
    asked_before = len(server.seen())

    def is_asked() -> bool:
        return any(
            request.path.startswith("/sandboxes/") for request in server.seen()[asked_before:]
        )

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(create_cancelled, backend, BOUND)
            while not is_asked():  # noqa: ASYNC110 - the server has no event for it
                await anyio.sleep(0.01)
            finish_in_the_portal(backend)
            group.cancel_scope.cancel()
        await none_is_left(server)


def finish_in_the_portal(backend: E2BBackend) -> None:
    """Let all calls of E2B come to their end while the caller's event loop stands still."""

    async def finish() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(others, timeout=BOUND)

    driver = backend._driver
    assert isinstance(driver, E2BDriver)
    driver._portal._submit(finish).result(BOUND)


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
    with anyio.fail_after(BOUND + SANDBOXES):
        async with anyio.create_task_group() as group:
            for number in range(SANDBOXES):
                group.start_soon(one, number)
    assert sorted(done) == list(range(SANDBOXES))
    assert not server.sandboxes
    # The SDK keeps up to 20 idle connections for the next call, and each has two ends here.
    assert sockets() <= before + 2 * 20 + 4


EXITS_OF_EACH = int(os.environ.get("SBX_TEST_EXITS", "3"))

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
    for _ in range(EXITS_OF_EACH):
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


async def test_connect_changes_no_lifetime(backend: E2BBackend, server: LocalE2B) -> None:
    async with await backend.create(timeout=60) as sandbox:
        before = server.ends_at(sandbox.id)
        async with await backend.connect(sandbox.id) as again:
            assert (await again.run(["echo", "well"])).stdout == "well\n"
        assert server.ends_at(sandbox.id) == before
        assert (await sandbox.run(["echo", "well"])).stdout == "well\n"


def pages(server: LocalE2B) -> int:
    """Count the pages of lists that were asked for."""
    return sum((seen.method, seen.path) == ("GET", "/v2/sandboxes") for seen in server.seen())


async def test_lists_have_pages(
    backend: E2BBackend, server: LocalE2B, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sandboxio_e2b._client as client

    monkeypatch.setattr(client, "PAGE", 2)
    async with AsyncExitStack() as stack:
        ids = set[str]()
        for n in range(5):
            sandbox = await backend.create(timeout=60, metadata={"n": f"{n} & ="})
            await stack.enter_async_context(sandbox)
            ids.add(sandbox.id)
        before = pages(server)
        listed = await backend.list_managed()
        assert {item.sandbox_id for item in listed} == ids
        assert {item.labels["n"] for item in listed} == {f"{n} & =" for n in range(5)}
        assert pages(server) - before == 3


def test_sdk_is_imported_on_no_event_loop_of_the_caller(server: LocalE2B) -> None:
    """It takes a second, and the loop that a sandbox is created on goes on meanwhile."""
    script = """
import sys, threading, anyio, sandboxio
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("e2b", "e2b_code_interpreter"):
            threads.add(threading.current_thread() is threading.main_thread())
threads = set()
sys.meta_path.insert(0, Watch())
async def main():
    async with await sandboxio.create("e2b://", timeout=60):
        assert threads == {False}, threads
anyio.run(main)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=BOUND)
