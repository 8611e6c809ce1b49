"""Ctrl-C during a call: the command is killed and the sandbox torn down, after one and after two."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

BOUND = 60.0
"""Seconds for a program that ends by itself in one or two."""

# It says the process id of its command, and then does what lasts.
RUN = """
try:
    with sandboxio.create_sync("host://", timeout=300) as sandbox:
        try:
            sandbox.run("echo $$ > ../pid; echo ready > ../ready; exec sleep 200")
        finally:
            print("left run", flush=True)
finally:
    print("left sandbox", len(driver.live), flush=True)
"""

STREAM = """
try:
    with sandboxio.create_sync("host://", timeout=300) as sandbox:
        with sandbox.stream("echo $$ > ../pid; echo started; exec sleep 200") as process:
            try:
                for chunk in process:
                    (driver.folder / "ready").write_text("ready\\n")
            finally:
                print("left run", flush=True)
finally:
    print("left sandbox", len(driver.live), flush=True)
"""

# A command that shrugs off everything but SIGKILL changes nothing.
STUBBORN = RUN.replace("exec sleep 200", "trap '' INT TERM HUP; while :; do sleep 1; done")


def wait_for(path: Path, process: subprocess.Popen[str]) -> str:
    """The text of a file, once the program has written it."""
    ends_at = time.monotonic() + BOUND
    while not (path.exists() and path.read_text().endswith("\n")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends_at, f"{path} was not written"
    return path.read_text()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.parametrize("code", [RUN, STREAM, STUBBORN], ids=["run", "stream", "stubborn"])
@pytest.mark.parametrize("times", [1, 2])
def test_interrupt_during_a_call(program: Any, code: str, times: int) -> None:
    with program.start(code) as process:
        wait_for(program.folder / "ready", process)
        pid = int(wait_for(program.folder / "pid", process))
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND)
    assert process.returncode == -signal.SIGINT
    assert "left run" in out
    assert "left sandbox" in out
    # The second may come when Python is ending, which says so in other words.
    assert "KeyboardInterrupt" in err if times == 2 else err.strip().endswith("KeyboardInterrupt")
    assert "never retrieved" not in err
    assert "was destroyed" not in err
    assert not is_alive(pid), "the command outlived its program"
    assert list(program.folder.glob("sbx-*.socket")) == [], "the sandbox outlived its program"


def test_after_one_interrupt_all_is_gone_when_the_block_is_left(program: Any) -> None:
    with program.start(RUN) as process:
        wait_for(program.folder / "ready", process)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=BOUND)
    assert out == "left run\nleft sandbox 0\n"


def test_an_interrupted_call_leaves_the_sandbox_usable(program: Any) -> None:
    code = """
with sandboxio.create_sync("host://", timeout=300) as sandbox:
    try:
        sandbox.run("echo ready > ../ready; exec sleep 200")
    except KeyboardInterrupt:
        print(sandbox.run("echo still here").stdout, end="")
print(len(driver.live))
"""
    with program.start(code) as process:
        wait_for(program.folder / "ready", process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND)
    assert (out, err, process.returncode) == ("still here\n0\n", "", 0)


SLOW_CREATE = """
import anyio
provision = driver.provision
async def slow(request):
    sandbox = await provision(request)
    (driver.folder / "ready").write_text("ready\\n")
    await anyio.sleep(100)
    return sandbox
driver.provision = slow
try:
    sandboxio.create_sync("host://", timeout=300)
finally:
    print("left", len(driver.live), [t.name for t in threading.enumerate() if "sandboxio" in t.name], flush=True)
"""


def test_interrupt_during_a_create_leaves_nothing(program: Any) -> None:
    with program.start(SLOW_CREATE) as process:
        wait_for(program.folder / "ready", process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND)
    assert out == "left 0 []\n"
    assert err.strip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT


def test_an_interrupt_of_the_teardown_does_not_stop_it(program: Any) -> None:
    code = """
import anyio
from conftest import HostSandbox
terminate = HostSandbox.terminate
async def slow(self):
    (driver.folder / "ready").write_text("ready\\n")
    await anyio.sleep(1)
    await terminate(self)
    print("torn down", flush=True)
HostSandbox.terminate = slow
with sandboxio.create_sync("host://", timeout=300) as sandbox:
    pass
"""
    with program.start(code) as process:
        wait_for(program.folder / "ready", process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND)
    assert out == "torn down\n"
    assert err.strip().endswith("KeyboardInterrupt")
