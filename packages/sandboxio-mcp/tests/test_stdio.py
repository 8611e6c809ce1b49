"""The server on stdio: what its client may do to it, and that nothing survives that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

pytestmark = pytest.mark.slow

# Of this folder's conftest, which nothing can import by that name: the root has one, too.
StartRaw = Any
Alive = Callable[[str], list[int]]
Until = Callable[[Callable[[], object]], Awaitable[None]]

BOUND = 60.0

LOCAL = ("--backend", "local://")

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}

NOISY = """
import os, sys, warnings
import sandboxio
from sandboxio_mcp import cli

real = sandboxio.create

async def create(*arguments, **options):
    print("noise from print")
    os.write(1, b"noise from the descriptor\\n")
    os.system("echo noise from a child; cat")  # that reads stdin, too
    warnings.warn("noise from a warning")
    return await real(*arguments, **options)

sandboxio.create = create
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop is enough: it is the client's, and the server is a process of its own."""
    return "asyncio"


def parameters(*arguments: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "sandboxio_mcp", *LOCAL, *arguments]
    )


# --- the official client


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_the_official_client_works_in_every_era_of_the_protocol(mode: str) -> None:
    with anyio.fail_after(BOUND):
        async with Client(parameters(), mode=mode) as client:
            assert len((await client.list_tools()).tools) == 7
            written: Any = await client.call_tool("write_file", {"path": "a", "content": "x"})
            assert not written.is_error
            result: Any = await client.call_tool("run_python", {"code": "print(open('a').read())"})
            assert result.structured_content["stdout"] == "x\n"


async def test_a_long_call_tells_its_progress() -> None:
    heard: list[tuple[float, str | None]] = []
    twice = anyio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))
        if len([m for _, m in heard if m and "running" in m]) == 2:
            twice.set()

    async def long(client: Client) -> None:
        arguments = {"command": "while ! test -e stop; do sleep 0.1; done"}
        result: Any = await client.call_tool("run_command", arguments, progress_callback=hear)
        assert result.structured_content["exit_code"] == 0

    with anyio.fail_after(BOUND):
        async with (
            Client(parameters("--progress-interval", "0.2")) as client,
            anyio.create_task_group() as group,
        ):
            group.start_soon(long, client)
            await twice.wait()
            await client.call_tool("write_file", {"path": "stop", "content": ""})
    assert heard == sorted(heard)
    assert "of at most" not in str(heard[0])
    assert "for at most 120 s" in str(heard[-1])


async def test_a_cancelled_call_ends_its_command_and_not_the_sandbox(
    alive: Alive, until: Until, token: str
) -> None:
    with anyio.fail_after(BOUND):
        async with Client(parameters()) as client:
            await client.call_tool("write_file", {"path": "kept", "content": "x"})
            async with anyio.create_task_group() as group:
                command = f"setsid sleep {token} & sleep {token}"
                group.start_soon(client.call_tool, "run_command", {"command": command})
                await until(lambda: len(alive(token)) >= 2)
                group.cancel_scope.cancel()
            await until(lambda: not alive(token))
            kept: Any = await client.call_tool("read_file", {"path": "kept"})
            assert kept.content[0].text == "x"


async def test_a_client_that_leaves_takes_its_sandbox_with_it(
    alive: Alive, until: Until, token: str, background: str
) -> None:
    with anyio.fail_after(BOUND):
        async with Client(parameters()) as client:
            await client.call_tool("run_command", {"command": background})
            assert alive(token)
        await until(lambda: not alive(token))


# --- without a client in between


async def test_initialize_needs_neither_docker_nor_a_network(start_raw: StartRaw) -> None:
    nowhere = {"DOCKER_HOST": "unix:///nonexistent.sock", "https_proxy": "http://127.0.0.1:9"}
    async with start_raw("--backend", "docker://nothing:here", env=nowhere) as server:
        answer = await server.start()
        assert answer["result"]["serverInfo"]["name"] == "sandboxio"
        assert len((await server.ask("tools/list"))["result"]["tools"]) == 7
        result = await server.command("true")
        assert result["isError"] is True
        assert result["structuredContent"]["error"]["code"].startswith("SBX_E12")
        assert (await server.ask("ping"))["result"] == {}


async def test_initialize_takes_less_than_two_seconds_of_a_processor(start_raw: StartRaw) -> None:
    async with start_raw(*LOCAL) as server:
        await server.start()
        # Not of the clock: that would measure what else this machine does.
        stat = await anyio.Path(f"/proc/{server.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])  # in user and in kernel mode
        assert ticks / os.sysconf("SC_CLK_TCK") < 2


async def test_stdout_carries_nothing_but_protocol(start_raw: StartRaw) -> None:
    async with start_raw(*LOCAL, program=("-c", NOISY)) as server:
        await server.start()
        result = await server.command("echo hi; echo noise >&2")
        assert result["structuredContent"]["stdout"] == "hi\n"
        await server.close_stdin()
        assert await server.process.wait() == 0
        with pytest.raises(anyio.IncompleteRead):
            await server.read()


async def test_what_is_no_message_is_answered_and_harms_nothing(start_raw: StartRaw) -> None:
    async with start_raw(*LOCAL) as server:
        for line in (b"{", b"[]", b"\xff\xfe", b"1", b'{"jsonrpc": "1.0"}', b"[" * 100_000):
            await server.write(line + b"\n")
            answer = await server.read()
            assert (answer["id"], answer["error"]["code"]) == (None, -32700)
        await server.write(b"\n  \n")
        assert "result" in await server.start()


async def test_a_message_in_pieces_is_read_and_one_without_an_end_ends_the_server(
    start_raw: StartRaw,
) -> None:
    async with start_raw(*LOCAL) as server:
        await server.start()
        ping = json.dumps({"jsonrpc": "2.0", "id": 99, "method": "ping"}).encode()
        for byte in ping + b"\n":
            await server.write(bytes([byte]))
        assert (await server.read())["id"] == 99
        with pytest.raises(anyio.BrokenResourceError):
            await server.write(b"x" * 32 * 1024 * 1024)
        assert await server.process.wait() == 0


async def test_closed_stdin_ends_the_call_the_sandbox_and_the_server(
    start_raw: StartRaw, alive: Alive, until: Until, token: str, background: str
) -> None:
    async with start_raw(*LOCAL) as server:
        await server.start()
        await server.command(background)
        await server.hang(token)
        await server.close_stdin()
        assert await server.process.wait() == 0
        assert not alive(token)


def test_a_client_that_stops_reading_is_a_client_that_left(
    alive: Alive, token: str, background: str
) -> None:
    # Plain pipes: what anyio calls closed is only not read any more.
    server = subprocess.Popen(
        [sys.executable, "-m", "sandboxio_mcp", *LOCAL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        command = {"command": background}
        for number, (method, params) in enumerate(
            (
                ("initialize", INITIALIZE),
                ("tools/call", {"name": "run_command", "arguments": command}),
            )
        ):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(message).encode() + b"\n")
            assert json.loads(server.stdout.readline())["id"] == number
        assert alive(token)
        server.stdout.close()
        server.stdin.write(b'{"jsonrpc": "2.0", "id": 9, "method": "ping"}\n')
        assert server.wait(BOUND) == 0
        assert not alive(token)
    finally:
        server.kill()
        server.stdin.close()
        server.stdout.close()
        server.wait()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_the_sandbox_before_the_server(
    start_raw: StartRaw, alive: Alive, token: str, signum: signal.Signals
) -> None:
    async with start_raw(*LOCAL) as server:
        await server.start()
        await server.hang(token)
        server.process.send_signal(signum)
        assert await server.process.wait() == 128 + signum
        assert not alive(token)


async def test_a_server_that_is_killed_leaves_nothing(
    start_raw: StartRaw, alive: Alive, until: Until, token: str, background: str
) -> None:
    async with start_raw(*LOCAL) as server:
        await server.start()
        await server.command(background)
        await server.hang(token)
        server.process.kill()
        await server.process.wait()
        await until(lambda: not alive(token))


async def test_two_calls_at_once_are_answered_each_when_it_is_done(start_raw: StartRaw) -> None:
    async with start_raw(*LOCAL) as server:
        await server.start()
        wait = {"command": "while ! test -e go; do sleep 0.05; done; echo first"}
        first = await server.send("tools/call", {"name": "run_command", "arguments": wait})
        second = await server.send(
            "tools/call", {"name": "run_command", "arguments": {"command": "touch go; echo second"}}
        )
        answers = [await server.read() for _ in range(2)]
        assert {
            answer["id"]: answer["result"]["structuredContent"]["stdout"] for answer in answers
        } == {first: "first\n", second: "second\n"}


async def test_stdin_and_stdout_may_be_files(tmp_path: Path) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    (tmp_path / "in").write_text(json.dumps(asked) + "\n")
    with (tmp_path / "in").open() as stdin, (tmp_path / "out").open("w") as stdout:
        with anyio.fail_after(BOUND):
            done = await anyio.run_process(
                [sys.executable, "-m", "sandboxio.mcp", *LOCAL],
                stdin=stdin,
                stdout=stdout,
                stderr=None,
                env=dict(os.environ),
            )
    assert done.returncode == 0
    assert json.loads((tmp_path / "out").read_text())["id"] == 1
