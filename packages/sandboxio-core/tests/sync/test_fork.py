"""After a fork, the child gets a clear error at once, and the parent goes on."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

FORK = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, of a fork beside threads
"""


def test_calls_in_the_child_fail_with_a_clear_error(program: Any) -> None:
    code = """
with sandboxio.create_sync("host://", timeout=300) as sandbox:
    process = sandbox.stream(["sleep", "100"])
    pid = os.fork()
    if pid == 0:
        calls = [
            lambda: sandbox.run(["true"]),
            lambda: sandbox.files.ls(),
            lambda: process.__enter__(),
            lambda: sandbox.kill(),
            lambda: sandbox.close(),
        ]
        for call in calls:
            try:
                call()
            except sandboxio.ConfigurationError as error:
                assert isinstance(error, sandboxio.SandboxError)
                print(error.message, flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    print(sandbox.run(["echo", "the parent goes on"]).stdout, end="")
print(len(driver.live))
"""
    done = program.run(FORK + code)
    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert done.returncode == 0
    assert len(lines) == 7
    assert all("belongs to process" in line for line in lines[:5])
    assert lines[5:] == ["the parent goes on", "0"]


def test_a_child_that_leaves_the_block_ends_nothing(program: Any) -> None:
    code = """
pid = None
try:
    with sandboxio.create_sync("host://", timeout=300) as sandbox:
        pid = os.fork()
        if pid == 0:
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        print(sandbox.run(["echo", "the parent goes on"]).stdout, end="")
finally:
    if pid:
        print(len(driver.live))
"""
    done = program.run(FORK + code)
    assert (done.stdout, done.stderr) == ("the parent goes on\n0\n", "")
    assert done.returncode == 0


def test_a_child_may_make_a_sandbox_of_its_own(program: Any) -> None:
    code = """
sandbox = sandboxio.create_sync("host://", timeout=300)
pid = os.fork()
if pid == 0:
    with sandboxio.create_sync("host://", timeout=300) as own:
        print(own.run(["echo", "the child's own"]).stdout, end="", flush=True)
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(sandbox.run(["echo", "the parent's"]).stdout, end="")
sandbox.close()
"""
    done = program.run(FORK + code)
    assert (done.stdout, done.stderr) == ("the child's own\nthe parent's\n", "")
    assert done.returncode == 0
