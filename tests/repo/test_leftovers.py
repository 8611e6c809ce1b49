"""The check that nothing is left behind: it must see what is there, or its silence means nothing."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import leftovers

BEFORE = leftovers.snapshot()


@contextmanager
def running(*command: str) -> Generator[subprocess.Popen[bytes]]:
    """A process that runs for the time of the block, and has started when the block begins."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def test_nothing_new_between_two_snapshots_of_the_same() -> None:
    assert leftovers.new_since(BEFORE, BEFORE) == []


def test_process_with_our_name_is_seen_while_it_runs() -> None:
    script = "echo ready; read line"
    with running("bash", "-c", f"exec -a sandboxio-warden bash -c '{script}'") as process:
        seen = leftovers.processes()
        assert [line for line in seen if line.startswith(f"{process.pid} ")] != []
    assert not any(line.startswith(f"{process.pid} ") for line in leftovers.processes())


def test_process_that_merely_mentions_our_name_is_not_ours() -> None:
    with running(
        "bash", "-c", "echo ready; read line", "edit", "/src/sandboxio/README.md"
    ) as process:
        assert not any(line.startswith(f"{process.pid} ") for line in leftovers.processes())


def test_namespace_of_a_process_is_seen() -> None:
    script = "readlink /proc/self/ns/uts >&2; echo ready; read line"
    before = leftovers.snapshot()  # now, as the kernel gives the number of a dead one again
    with subprocess.Popen(
        ["unshare", "--user", "--uts", "bash", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        ready = process.stdout.readline()
        if not ready:
            process.kill()
            pytest.skip(f"no user namespaces here: {process.stderr.read().decode().strip()}")
        name = process.stderr.readline().decode().strip()
        seen = leftovers.new_since(before, leftovers.snapshot())
        process.kill()
    assert f"namespace: {name}" in seen


def test_temporary_folder_with_our_name_is_seen() -> None:
    with tempfile.TemporaryDirectory(prefix="sandboxio-leftover-") as folder:
        assert f"file: {folder}" in leftovers.new_since(BEFORE, leftovers.snapshot())


def test_exit_code_says_whether_something_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states = [{"process": ["1 init"]}, {"process": ["1 init"]}, {"process": ["1 init", "2 bwrap"]}]
    remaining = iter(states)
    monkeypatch.setattr(leftovers, "snapshot", lambda: next(remaining, states[-1]))
    monkeypatch.setattr(leftovers, "GRACE_SECONDS", 0)
    file = tmp_path / "before.json"
    assert leftovers.main(["before", str(file)]) == 0
    assert json.loads(file.read_text()) == states[0]
    assert leftovers.main(["after", str(file)]) == 0
    assert leftovers.main(["after", str(file)]) == 1
    assert "left behind: process: 2 bwrap" in capsys.readouterr().out
