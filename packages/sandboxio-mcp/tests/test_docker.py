"""The server with sandboxes on a real Docker Engine."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

import dockerd

pytestmark = [pytest.mark.docker, pytest.mark.slow]

# Of this folder's conftest, which nothing can import by that name: the root has one, too.
StartRaw = Any
StartHttp = Callable[..., Any]
Until = Callable[[Callable[[], object]], Awaitable[None]]

BOUND = 60.0

DOCKER = ("--backend", f"docker://{dockerd.PYTHON_IMAGE}")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop is enough: it is the client's, and the server is a process of its own."""
    return "asyncio"


def containers(pid: int) -> list[str]:
    """Return the containers of a server, as the engine itself lists them."""
    wanted = json.dumps({"label": [f"io.sandboxio.session={pid}"]})
    listed = dockerd.get(f"/containers/json?all=1&filters={quote(wanted)}")
    assert listed is not None
    return [container["Id"] for container in json.loads(listed)]


async def test_the_official_client_runs_code_on_stdio() -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "sandboxio_mcp", *DOCKER])
    with anyio.fail_after(BOUND):
        async with Client(server) as client:
            result: Any = await client.call_tool("run_python", {"code": "print(6 * 7)"})
            assert result.structured_content["stdout"] == "42\n"
            info: Any = await client.call_tool("sandbox_info", {})
            policy = info.structured_content["policy"]
            assert (policy["network"]["egress"], policy["network"]["verified"]) == ("deny", True)
            assert policy["memory_mb"]["verified"] is True


async def test_the_official_client_runs_code_over_http(start_http: StartHttp) -> None:
    server = start_http(*DOCKER)
    with anyio.fail_after(BOUND):
        async with Client(server.url) as one, Client(server.url) as other:
            await one.call_tool("write_file", {"path": "mine", "content": "x"})
            listed: Any = await other.call_tool("run_command", {"command": "ls"})
            assert listed.structured_content["stdout"] == ""
            assert len(containers(server.process.pid)) == 2
        assert server.stop() == 128 + signal.SIGTERM
    assert containers(server.process.pid) == []


@pytest.mark.parametrize("end", ["stdin", "SIGTERM"])
async def test_the_end_of_the_server_is_the_end_of_its_container(
    start_raw: StartRaw, token: str, end: str
) -> None:
    async with start_raw(*DOCKER) as server:
        await server.start()
        await server.hang(token)
        assert len(containers(server.process.pid)) == 1
        if end == "stdin":
            await server.close_stdin()
        else:
            server.process.terminate()
        await server.process.wait()
        assert containers(server.process.pid) == []


async def test_a_server_that_is_killed_leaves_no_container(
    start_raw: StartRaw, until: Until, token: str
) -> None:
    async with start_raw(*DOCKER) as server:
        await server.start()
        await server.hang(token)
        server.process.kill()
        await server.process.wait()
        await until(lambda: not containers(server.process.pid))
