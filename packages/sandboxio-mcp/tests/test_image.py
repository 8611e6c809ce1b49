"""The Dockerfile, built and run on a real engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from packaging.requirements import Requirement

import dockerd
import workspace

BUILD_BOUND = 300.0
"""Seconds for the build of an image; it copies, unpacks and compiles."""

BOUND = 60.0

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(BUILD_BOUND + BOUND)]

Until = Callable[[Callable[[], object]], Awaitable[None]]

TOKEN = "correct-horse-battery-staple"

OWN = ("sandboxio-core", "sandboxio-mcp", "sandboxio-docker")

CONTEXT = workspace.ROOT / "packages" / "sandboxio-mcp" / "docker"

# What a container of the server is run with: no right that it does not need.
HARDENED = ("--rm", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL")
HARDENED += ("--security-opt", "no-new-privileges", "--memory", "512m", "--pids-limit", "64")

SOCKET = "/var/run/docker.sock"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop is enough: it is the client's, and the server is a process of its own."""
    return "asyncio"


def docker(*arguments: str, bound: float = BOUND) -> str:
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=bound, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def needed(*roots: str) -> set[str]:
    """Return the distributions of this environment that these need, in this environment."""
    found: set[str] = set()
    waiting = [Requirement(root) for root in roots]
    while waiting:
        requirement = waiting.pop()
        name = metadata.distribution(requirement.name).metadata["Name"]
        extras = requirement.extras or {""}
        if name in found and extras == {""}:
            continue
        found.add(name)
        for line in metadata.requires(name) or ():
            further = Requirement(line)
            marker = further.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(further)
    return found


def pack(name: str, target: Path) -> None:
    """Make a wheel of what is installed: its files, as its record lists them.

    The index is not asked: what CI tests is what it has, and a build must work without a network.
    """
    distribution = metadata.distribution(name)
    with zipfile.ZipFile(target / f"{name}-{distribution.version}-py3-none-any.whl", "w") as wheel:
        for file in distribution.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                wheel.write(Path(str(distribution.locate_file(file))), str(file))


def build_wheel(name: str, target: Path) -> None:
    project = workspace.ROOT / "packages" / name
    command = ["-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
    subprocess.run(
        [sys.executable, *command], cwd=project, check=True, capture_output=True, timeout=BOUND
    )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image, built from the Dockerfile and wheels, without a network."""
    if shutil.which("docker") is None:
        pytest.skip("docker: the command line is not installed")
    theirs = docker(
        *("run", "--rm", "--entrypoint", "python3", dockerd.PYTHON_IMAGE),
        *("-c", "import sys; print(*sys.version_info[:2], sep='.')"),
    )
    ours = ".".join(map(str, sys.version_info[:2]))
    if theirs != ours:
        pytest.skip(f"the image has Python {theirs}, and the compiled wheels here are for {ours}")
    context = tmp_path_factory.mktemp("context")
    for file in ("Dockerfile", "unpack.py"):
        shutil.copy(CONTEXT / file, context)
    wheels = context / "wheels"
    wheels.mkdir()
    for name in OWN:
        build_wheel(name, wheels)
    for name in sorted(needed(*OWN) - set(OWN)):
        pack(name, wheels)
    tag = f"sandboxio-mcp-test:{os.getpid()}"
    build = ("build", "--network", "none", "--force-rm")
    base = ("--build-arg", f"BASE={dockerd.PYTHON_IMAGE}", str(context))
    # Its first stage by name, too: the classic builder would leave it behind without one.
    first = f"{tag}-unpacked"
    docker(*build, "--target", "unpacked", "--tag", first, *base, bound=BUILD_BOUND)
    docker(*build, "--tag", tag, *base, bound=BOUND)
    yield tag
    docker("image", "rm", "--force", tag, first)


@contextmanager
def named() -> Generator[str, None, None]:
    """A name for a container, which is gone afterwards."""
    name = f"sandboxio-mcp-test-{os.getpid()}"
    try:
        yield name
    finally:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)


def on_the_engine(image: str, name: str) -> tuple[str, ...]:
    """Return the arguments of a server that makes sandboxes on the engine it runs on itself."""
    group = str(Path(SOCKET).stat().st_gid)
    return (
        *("run", "--interactive", "--name", name, *HARDENED, "--network", "none"),
        *("--volume", f"{SOCKET}:{SOCKET}", "--group-add", group),
        *(image, "--backend", f"docker://{dockerd.PYTHON_IMAGE}"),
    )


def sandboxes() -> set[str]:
    """Return the containers that MCP servers made, as the engine itself lists them."""
    listed = dockerd.get("/containers/json?all=1")
    assert listed is not None
    return {
        container["Id"]
        for container in json.loads(listed)
        if "sandboxio-mcp" in container["Labels"].values()
    }


def stopped(name: str) -> str:
    """Stop a container, and return its exit code; 137 if it had to be killed."""
    waiting = subprocess.Popen(
        ["docker", "wait", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    docker("stop", "--time", "10", name)
    return waiting.communicate(timeout=BOUND)[0].strip()


def test_the_server_is_not_root_and_holds_no_socket_and_nothing_to_write(image: str) -> None:
    code = (
        "import os, pathlib; print(os.getuid(), os.getgid(), os.path.exists('/var/run/docker.sock'),"
        " os.access('/opt/sandboxio', os.W_OK), os.access('/etc/passwd', os.W_OK))"
    )
    ran = docker("run", *HARDENED, "--entrypoint", "python3", image, "-c", code)
    assert ran == "65532 65532 False False False"
    assert json.loads(docker("image", "inspect", "--format", "{{json .Config.User}}", image)) == (
        "65532:65532"
    )


async def test_it_answers_without_a_network_or_an_engine(image: str) -> None:
    server = StdioServerParameters(
        command="docker", args=["run", "--interactive", *HARDENED, "--network", "none", image]
    )
    with anyio.fail_after(BOUND):
        async with Client(server) as client:
            assert len((await client.list_tools()).tools) == 7
            result: Any = await client.call_tool("run_python", {"code": "1"})
            assert result.is_error
            assert result.structured_content["error"]["code"].startswith("SBX_E1")


async def test_it_runs_code_in_a_sandbox_beside_it_which_cannot_reach_the_engine(
    image: str, until: Until
) -> None:
    before = sandboxes()
    with named() as name, anyio.fail_after(BOUND):
        server = StdioServerParameters(command="docker", args=list(on_the_engine(image, name)))
        async with Client(server) as client:
            code = "import os; print(6 * 7, os.path.exists('/var/run/docker.sock'))"
            result: Any = await client.call_tool("run_python", {"code": code})
            assert result.structured_content["stdout"] == "42 False\n"
            assert len(sandboxes() - before) == 1
        await until(lambda: not sandboxes() - before)


async def test_its_sandbox_ends_when_its_container_is_killed(image: str, until: Until) -> None:
    before = sandboxes()
    with named() as name:
        initialize = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        run = {"name": "run_command", "arguments": {"command": "sleep 1000"}}
        async with await anyio.open_process(["docker", *on_the_engine(image, name)]) as server:
            assert server.stdin is not None
            for number, method, params in (
                (1, "initialize", initialize),
                (2, "tools/call", run),
            ):
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                await server.stdin.send(json.dumps(message).encode() + b"\n")
            await until(lambda: len(sandboxes() - before) == 1)
            docker("kill", "--signal", "KILL", name)
            await until(lambda: not sandboxes() - before)


async def test_over_http_it_demands_the_token_and_stops_when_it_is_asked(
    image: str, until: Until
) -> None:
    with named() as name:
        docker(
            *("run", "--detach", "--name", name, *HARDENED, "--publish", "127.0.0.1:0:8000"),
            *("--env", f"SBX_MCP_TOKEN={TOKEN}", image),
            *("--transport", "streamable-http", "--host", "0.0.0.0"),
        )
        published = docker("port", name, "8000").splitlines()[0]
        url = f"http://{published}/mcp"

        def refused() -> bool:
            try:
                return httpx2.post(url).status_code == 401
            except httpx2.TransportError:
                return False  # it is still starting

        await until(refused)
        async with httpx2.AsyncClient(
            headers={"authorization": f"Bearer {TOKEN}"}, timeout=BOUND
        ) as http_client:
            transport = streamable_http_client(url, http_client=http_client)
            async with Client(transport) as client:
                assert len((await client.list_tools()).tools) == 7
        assert stopped(name) == "143"
