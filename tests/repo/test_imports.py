"""What an import costs, and that each module stands by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import workspace

MEMBERS = [member for member in workspace.members() if member.package]

# Loaded at the first use and not before: `import sandboxio` is paid by every program that has it
# somewhere in its imports.
NOT_YET = (
    "anyio",
    "asyncio",
    "docker",
    "e2b",
    "mcp",
    "pluggy",
    "pytest",
    "sandboxio._api",
    "sandboxio._engine",
    "sandboxio._wiring",
    "sandboxio_docker",
    "sandboxio_e2b",
    "sandboxio_local",
    "sandboxio_mcp",
    "sandboxio_testing",
    "ssl",
    "trio",
)
# The SDK of each backend. A plugin module is loaded to learn what there is: it must not load one.
SDKS = {"docker", "e2b", "e2b_code_interpreter", "mcp"}


def in_a_new_process(code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in an interpreter of its own, where a warning is an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )


def test_import_of_sandboxio_loads_no_engine_no_plugin_and_no_event_loop() -> None:
    answer = in_a_new_process("import sys, sandboxio; print(*sys.modules)")
    assert answer.returncode == 0, answer.stderr
    assert set(answer.stdout.split()) & set(NOT_YET) == set()


def test_import_of_sandboxio_opens_no_socket_starts_nothing_and_writes_nothing() -> None:
    code = """
import sys
seen = []
def hook(event, args):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.fork", "os.posix_spawn")):
        seen.append(event)
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        if ".pyc" not in str(args[0]):
            seen.append(f"open {args[0]} {args[1]}")
sys.addaudithook(hook)
import sandboxio
print(*seen, sep="\\n", end="")
"""
    answer = in_a_new_process(code)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == ""


@pytest.mark.slow
# A process for each module, and an agent framework takes seconds to import.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_every_module_can_be_imported_first(member: workspace.Member) -> None:
    """A module that works only after another was imported hides a cycle."""
    # What is called `inside` is sent into a sandbox as text and runs there; nobody imports it.
    modules = [module for module in member.modules() if ".inside." not in module]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = pool.map(in_a_new_process, [f"import {module}" for module in modules])
    failed = {
        module: answer.stderr.strip().splitlines()[-1]
        for module, answer in zip(modules, answers, strict=True)
        if answer.returncode != 0 and not names_its_extra(module, answer.stderr)
    }
    assert failed == {}


def names_its_extra(module: str, stderr: str) -> bool:
    """Whether a module that needs a framework said how to install it."""
    return module.startswith("sandboxio.integrations.") and "uv pip install" in stderr


@pytest.mark.parametrize(
    "module", [name for member in MEMBERS for name in member.modules() if name.endswith("._plugin")]
)
def test_plugin_module_loads_no_sdk(module: str) -> None:
    answer = in_a_new_process(f"import sys, {module}; print(*sys.modules)")
    assert answer.returncode == 0, answer.stderr
    assert set(answer.stdout.split()) & SDKS == set()
