"""What can go wrong with a sandbox that runs: its connections break, and nobody lies about it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from sandboxio import (
    ConnectError,
    ExecutionTimeout,
    SandboxGone,
    SandboxUnreachable,
)
from sandboxio.protocols import AsyncSandbox
from sandboxio_e2b import E2BBackend
from sandboxio_testing.e2b import Fault, LocalE2B

START = "POST /process.Process/Start"
SEND = "POST /process.Process/SendInput"
BOUND = 60.0

BEAT = "while :; do date +%s%N > beat; sleep 0.02; done"


@pytest.fixture
async def sandbox(backend: E2BBackend) -> AsyncGenerator[AsyncSandbox, None]:
    async with await backend.create(timeout=300) as made:
        assert (await made.run(["true"])).ok
        yield made


async def test_commands_run_again_after_the_stream_was_cut(
    backend: E2BBackend, server: LocalE2B
) -> None:
    """And what ran when it was cut is dead by then, children included."""
    server.add(Fault(route=START, drop="body", cut_after=100_000))
    with anyio.fail_after(BOUND):
        async with await backend.create(timeout=300) as sandbox:
            script = f"({BEAT}) & setsid sh -c 'sleep 4711' & yes | head -c 10000000; sleep 300"
            with pytest.raises(SandboxUnreachable) as caught:
                await sandbox.run(script)
            assert caught.value.__cause__ is not None
            assert "4711" not in (await sandbox.run("ps ax")).stdout
            first = await sandbox.files.read("beat")
            await sandbox.run(["sleep", "0.2"])
            assert await sandbox.files.read("beat") == first
            assert (await sandbox.run(["echo", "well"])).stdout == "well\n"


async def test_stream_that_ends_early_is_no_success(backend: E2BBackend, server: LocalE2B) -> None:
    server.add(Fault(route=START, end_early=True, cut_after=50_000))
    with anyio.fail_after(BOUND):
        async with await backend.create(timeout=300) as sandbox:
            with pytest.raises(SandboxUnreachable):
                await sandbox.run("yes | head -c 1000000")
            assert (await sandbox.run(["echo", "well"])).stdout == "well\n"


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 429},
        {"status": 500},
        {"status": 503},
        {"status": 502, "body": b"<html>"},
        {"drop": "before"},
        {"drop": "head"},
        {"drop": "body", "cut_after": 1},
    ],
    ids=str,
)
async def test_input_that_is_not_taken_fails_the_call_and_not_the_sandbox(
    sandbox: AsyncSandbox, server: LocalE2B, fault: dict[str, Any]
) -> None:
    server.add(Fault(route=SEND, **fault))
    outcomes: list[str] = []
    with anyio.fail_after(BOUND):
        while outcomes[-1:] != ["well\n"] or len(outcomes) < 2:
            try:
                outcomes.append((await sandbox.run(["echo", "well"])).stdout)
            except SandboxUnreachable:
                outcomes.append("unreachable")
    # When only the answer to a request was lost, the command itself may have been quicker.
    assert sorted(outcomes)[:2] == ["unreachable", "well\n"] or "drop" in fault
    assert outcomes.count("unreachable") <= 1


async def test_deadline_fires_although_e2b_is_silent(
    sandbox: AsyncSandbox, server: LocalE2B
) -> None:
    """Then nothing can be confirmed, so the sandbox as a whole is ended."""
    server.add(Fault(route=SEND, silent=True, times=99))
    with anyio.fail_after(BOUND):
        with pytest.raises(ExecutionTimeout):
            await sandbox.run(["sleep", "300"], timeout=0.5)
        assert not server.sandboxes


@pytest.mark.parametrize("drop", [None, "before", "head"])
async def test_kill_that_failed_can_be_repeated(
    backend: E2BBackend, server: LocalE2B, drop: Any
) -> None:
    sandbox = await backend.create(timeout=300)
    status, times = (None, 2) if drop else (500, 1)
    server.add(Fault(route="DELETE /sandboxes/*", status=status, drop=drop, times=times))
    with anyio.fail_after(BOUND):
        with pytest.raises(ConnectError) as caught:
            await sandbox.kill()
        assert caught.value.__cause__ is not None
        await sandbox.kill()
        assert not server.sandboxes


async def test_killed_guest_is_started_again(backend: E2BBackend) -> None:
    """With the environment of the sandbox, and without anything that the old one had started."""
    async with await backend.create(timeout=300, env={"WHO": "me"}) as sandbox:
        with anyio.fail_after(BOUND):
            await sandbox.run("setsid sleep 4713 >/dev/null 2>&1 &")
            with pytest.raises(SandboxUnreachable):
                await sandbox.run(
                    "setsid sleep 4712 & kill -9 $(pgrep -f 'sbx-[0-9a-f]*.pyc'); sleep 4712"
                )
            listed = (await sandbox.run("ps ax; echo $WHO")).stdout
            assert "sleep 471" not in listed
            assert listed.endswith("me\n")


async def test_connection_faults_do_not_hide_that_it_is_gone(
    sandbox: AsyncSandbox, server: LocalE2B
) -> None:
    server.end_all()
    with anyio.fail_after(BOUND), pytest.raises(SandboxGone):
        await sandbox.run(["true"])


async def test_gone_is_told_although_the_question_fails_at_first(
    sandbox: AsyncSandbox, server: LocalE2B
) -> None:
    async def watch() -> None:
        async with sandbox.stream("echo begun; sleep 300") as process:
            async for chunk in process:
                assert chunk.data == b"begun\n"
                await anyio.to_thread.run_sync(server.end_all)

    server.add(Fault(route="GET /sandboxes/*", drop="before", times=2))
    with anyio.fail_after(BOUND), pytest.raises(SandboxGone):
        await watch()


async def test_file_transfers_fail_whole(sandbox: AsyncSandbox, server: LocalE2B) -> None:
    with anyio.fail_after(BOUND):
        await sandbox.files.write("kept", b"old")
        server.add(Fault(route=SEND, drop="before", skip=2))
        with pytest.raises(SandboxUnreachable):
            await sandbox.files.write("kept", bytes(8 << 20))
        assert await sandbox.files.read("kept") == b"old"
        assert [info.path for info in await sandbox.files.ls()] == ["kept"]
