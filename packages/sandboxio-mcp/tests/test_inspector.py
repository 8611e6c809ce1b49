"""The server under the MCP inspector's command line, which is a client in another language."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

INSTALL_BOUND = 240.0
"""Seconds for npm to fetch the inspector, where it has not done so before."""

BOUND = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(INSTALL_BOUND + BOUND)]

# Of this folder's conftest, which nothing can import by that name: the root has one, too.
StartHttp = Callable[..., Any]

PACKAGE = "@modelcontextprotocol/inspector@2.12.0"

TOKEN = "correct-horse-battery-staple"

Inspect = Callable[..., Any]


@pytest.fixture(scope="module")
def inspect(tmp_path_factory: pytest.TempPathFactory) -> Inspect:
    """Run the inspector; skips, by name, where npm or what it asks is missing."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("inspector: npm is not installed")
    folder: Path = tmp_path_factory.mktemp("inspector")
    try:
        installed = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--fetch-retries=1", PACKAGE],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=INSTALL_BOUND,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"inspector: npm did not install {PACKAGE} within {INSTALL_BOUND:g} s")
    if installed.returncode != 0:
        pytest.skip(f"inspector: npm cannot install {PACKAGE} here: {installed.stderr[-300:]}")

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            [str(folder / "node_modules" / ".bin" / "mcp-inspector"), "--cli", *arguments],
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


STDIO = (sys.executable, "-m", "sandboxio_mcp", "--backend", "local://")


def test_it_lists_the_tools(inspect: Inspect) -> None:
    tools = inspect(*STDIO, "--method", "tools/list")["tools"]
    assert [tool["name"] for tool in tools][:2] == ["run_python", "run_command"]


def test_it_calls_a_tool_on_stdio(inspect: Inspect) -> None:
    call = ("--method", "tools/call", "--tool-name", "run_python")
    result = inspect(*STDIO, *call, "--tool-arg", "code=print(6*7)")
    assert result["structuredContent"]["stdout"] == "42\n"


def test_it_calls_a_tool_over_http_with_the_token(inspect: Inspect, start_http: StartHttp) -> None:
    server = start_http("--backend", "local://", env={"SBX_MCP_TOKEN": TOKEN})
    result = inspect(
        *(server.url, "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"),
        *("--method", "tools/call", "--tool-name", "run_command", "--tool-arg", "command=echo hi"),
    )
    assert result["structuredContent"]["stdout"] == "hi\n"
