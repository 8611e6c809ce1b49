"""How to test a tool of your own that runs code in a sandbox: no daemon, no account, no waiting.

uv pip install "sandboxio[testing]"
pytest test_my_tool.py
"""

from __future__ import annotations

import pytest

import sandboxio
from sandboxio import ExecResult, ExecutionTimeout, NetworkPolicy
from sandboxio.testing import FakeBackend

pytestmark = pytest.mark.anyio

# --- the code under test: what your agent calls


async def python_version_of(sandbox: sandboxio.AsyncSandbox, package: str) -> str:
    """Ask a sandbox which version of a package it has."""
    result = await sandbox.run_code(f"import {package}; print({package}.__version__)")
    return result.raise_for_status().stdout.strip()


async def run_tests(repository: str) -> str:
    """Create a sandbox of its own, run the tests in it, and say what came of it."""
    async with await sandboxio.create("docker://python:3.12-slim", timeout=600) as sandbox:
        try:
            result = await sandbox.run(["pytest", "-q", repository], timeout=120)
        except ExecutionTimeout as error:
            return f"The tests hang. Their last words: {error.stdout.strip()}"
        return "All is well." if result.ok else result.stdout.splitlines()[-1]


# --- its tests


async def test_tool_reads_the_version_from_the_output(sbx_fake: FakeBackend) -> None:
    sbx_fake.on_run_code(match="import pandas", returns=ExecResult(0, "2.2.1\n", ""))

    assert await python_version_of(sbx_fake.sandbox, "pandas") == "2.2.1"

    assert sbx_fake.calls[0].op == "create"
    assert sbx_fake.calls[0].network == NetworkPolicy(egress="deny")
    assert "pandas" in (sbx_fake.calls[1].code or "")


async def test_tool_does_not_hide_that_the_package_is_missing(sbx_fake: FakeBackend) -> None:
    sbx_fake.on_run_code(match="import", returns=ExecResult(1, "", "ModuleNotFoundError\n"))

    with pytest.raises(sandboxio.ExecutionError):
        await python_version_of(sbx_fake.sandbox, "pandas")


async def test_tool_that_creates_its_own_sandbox(sbx_offline: FakeBackend) -> None:
    """Nothing of the tool changes: for this test, ``docker://`` means the fake."""
    sbx_offline.on_run(match="pytest", returns=ExecResult(1, "F.\n1 failed, 1 passed\n", ""))

    assert await run_tests("/work/app") == "1 failed, 1 passed"

    assert sbx_offline.calls[0].template == "python:3.12-slim"
    assert sbx_offline.calls[0].timeout == 600
    assert sbx_offline.calls[1].argv == ("pytest", "-q", "/work/app")


@pytest.mark.usefixtures("sbx_no_leaks")
async def test_two_minutes_pass_in_a_moment(sbx_offline: FakeBackend) -> None:
    sbx_offline.on_run(match="pytest", hangs=True)

    assert (await run_tests("/work/app")).startswith("The tests hang.")

    assert sbx_offline.clock.current_time() >= 120
    assert sbx_offline.live_sandboxes == ()


def test_code_without_an_event_loop(sbx_offline: FakeBackend) -> None:
    with sandboxio.create_sync("docker://python:3.12-slim") as sandbox:
        assert sandbox.run("echo hello | wc -c").stdout == "6\n"
