"""The record and the sync facade, on real sandboxes of this backend."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import sandboxio
from sandboxio import Sandbox, SandboxGone, connect_sync, create_sync
from sandboxio.audit import AuditConfig, AuditEvent
from sandboxio_local import LocalBackend

BOUND = 60.0
"""Seconds for a program that ends by itself in one or two, and for a lease to be noticed."""


class Collected:
    """A sink that keeps events."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    async def emit(self, event: AuditEvent) -> None:
        self.events.append(event)


def processes_of(sandbox_id: str) -> list[int]:
    """Every process of the host that names a sandbox in its arguments: without the backend's help."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes()
        except OSError:
            continue
        if sandbox_id.encode() in arguments and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found


def wait_until_gone(sandbox_id: str) -> None:
    ends_at = time.monotonic() + BOUND
    while processes_of(sandbox_id):
        assert time.monotonic() < ends_at, f"{sandbox_id} is still there"


async def test_events_have_what_is_really_in_force() -> None:
    collected = Collected()
    backend = LocalBackend(audit=AuditConfig(sinks=(collected,)))
    secrets = {"KEY": "canary-local-77"}
    async with await backend.create(
        timeout=60, secrets=secrets, metadata={"tenant_id": "acme"}
    ) as sandbox:
        result = await sandbox.run(["echo", "canary-local-77"])
        assert result.stdout == "canary-local-77\n", "the output is the caller's own"
        async with sandbox.stream(["cat"], stdin="canary-local-77") as process:
            await process.wait()
        with pytest.raises(sandboxio.PathNotFound) as caught:
            await sandbox.files.read("/work/canary-local-77")
        async with await backend.connect(sandbox.id) as attached:
            await attached.run(["echo", "canary-local-77"])
    assert [event.event for event in collected.events] == [
        *("create", "exec", "stream", "file_read", "connect", "exec", "kill")
    ]
    for event in collected.events:
        assert event.sandbox_id == sandbox.id
        assert event.policy is not None
        assert event.policy.network_verified
        assert event.policy.network.egress == "deny"
        assert "canary" not in event.as_line()
    assert collected.events[2].bytes_out == len("canary-local-77")
    assert "canary" not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"


def test_the_surface_in_a_script() -> None:
    before = set(threading.enumerate())
    with create_sync("local://", timeout=60) as sandbox:
        assert sandbox.run_code("print(6 * 7)").stdout == "42\n"
        with sandbox.stream("cat; exit 3", stdin=sandboxio.PIPE) as process:
            process.send("typed")
            process.send_eof()
            assert b"".join(chunk.data for chunk in process) == b"typed"
            assert process.wait().exit_code == 3
        sandbox.files.write("a", "b")
        with connect_sync(sandbox.id, backend="local") as attached:
            assert attached.files.read("a") == b"b"
        assert processes_of(sandbox.id)
    with pytest.raises(SandboxGone):
        sandbox.run(["true"])
    assert processes_of(sandbox.id) == []
    started = set(threading.enumerate()) - before
    assert [thread for thread in started if "sandboxio" in thread.name] == []


@pytest.mark.slow
def test_a_sandbox_in_each_of_many_threads_and_one_for_all() -> None:
    failures: list[BaseException] = []

    def work(shared: Sandbox, number: int) -> None:
        try:
            with create_sync("local://", timeout=100) as own:
                assert own.run(["echo", str(number)]).stdout == f"{number}\n"
                assert shared.run(["echo", str(number)]).stdout == f"{number}\n"
        except BaseException as error:
            failures.append(error)
            raise

    with create_sync("local://", timeout=100) as shared:
        threads = [threading.Thread(target=work, args=(shared, n)) for n in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)


def start(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", f"import sandboxio, sys, threading\n{code}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("how", ["run", "stream"])
def test_interrupts_end_the_command_and_the_sandbox(how: str, times: int) -> None:
    body = {
        "run": "sandbox.run(['sleep', '200'])",
        "stream": "[None for chunk in sandbox.stream(['sleep', '200']).__enter__()]",
    }[how]
    code = f"""
with sandboxio.create_sync("local://", timeout=300) as sandbox:
    print(sandbox.id, flush=True)
    {body}
"""
    with start(code) as process:
        assert process.stdout is not None
        sandbox_id = process.stdout.readline().strip()
        assert processes_of(sandbox_id)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=BOUND)
    assert process.returncode == -signal.SIGINT
    assert err.strip().endswith("KeyboardInterrupt"), err
    wait_until_gone(sandbox_id)


@pytest.mark.parametrize("ending", ["", "1 / 0", "sys.exit(0)", "import os; os._exit(0)"])
def test_what_was_not_closed_ends_with_the_program(ending: str) -> None:
    code = f"""
sandbox = sandboxio.create_sync("local://", timeout=300)
sandbox.files.upload(sandboxio.__file__, "file")
print(sandbox.id, flush=True)
{ending}
"""
    with start(code) as process:
        out, err = process.communicate(timeout=BOUND)
    assert process.returncode == (1 if "/" in ending else 0)
    assert err.count("Traceback") == ("/" in ending), err
    wait_until_gone(out.strip())


def test_a_forked_child_gets_a_clear_error_and_the_parent_goes_on() -> None:
    code = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
with sandboxio.create_sync("local://", timeout=300) as sandbox:
    if (pid := os.fork()) == 0:
        try:
            sandbox.run(["true"])
        except sandboxio.ConfigurationError:
            print("refused", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    print(sandbox.run(["echo", "parent"]).stdout, end="")
"""
    with start(code) as process:
        out, err = process.communicate(timeout=BOUND)
    assert (out, err) == ("refused\nparent\n", "")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:nbclient")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq")
def test_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    cells: list[Any] = [
        nbformat.v4.new_code_cell("import sandboxio\nsandbox = sandboxio.create_sync('local://')"),
        nbformat.v4.new_code_cell("print(sandbox.run_code('print(6 * 7)').stdout, sandbox.id)"),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=BOUND, kernel_name="python3").execute()
    answer, sandbox_id = notebook.cells[1]["outputs"][0]["text"].split()
    assert answer == "42"
    wait_until_gone(sandbox_id)
