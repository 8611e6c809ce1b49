"""``sandboxio completion``: the Tab key, asked as shells ask, and in the shells themselves."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(sys.executable).with_name("sandboxio")

PROCESS_BOUND = 60.0
"""Seconds for a shell that asks a new process; it takes a quarter of one on a quiet machine."""


def suggested(line: str, answer: Path) -> list[str]:
    """What a shell is told for a line with the cursor at its end."""
    done = subprocess.run(
        [PROGRAM],
        env={
            **os.environ,
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_BOUND,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return [word.strip() for word in answer.read_text().split("\n")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sandboxio do", ["doctor"]),
        ("sandboxio doctor lo", ["local"]),
        ("sandboxio reap --backend do", ["docker"]),
        ("sandboxio demo --backend lo", ["local://"]),
        ("sandboxio route --needs STATEFUL", ["STATEFUL_CODE"]),
        ("sandboxio route --isolation m", ["microvm"]),
        ("sandboxio reap --ki", ["--kill"]),
        ("sandboxio completion f", ["fish"]),
    ],
)
def test_line_goes_on_with_what_there_is(tmp_path: Path, line: str, words: list[str]) -> None:
    assert suggested(line, tmp_path / "answer") == words


def test_broken_command_of_a_wheel_stops_no_other(
    install: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("sbx-test-bad", "sandboxio.commands", "bad", "raise RuntimeError('broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    assert suggested("sandboxio ba", tmp_path / "answer") == ["bad"]
    assert suggested("sandboxio bad --", tmp_path / "other") != []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_json_and_text_hold_the_same_script(command: Any, shell: str) -> None:
    shown = command("completion", shell)
    found = json.loads(command("completion", shell, "--json").out)
    assert (shown.code, shown.out) == (0, found["script"] + "\n")
    assert found["programs"] == ["sandboxio", "sbx"]
    assert "sandboxio" in found["script"]


def test_without_the_extra_its_install_command_is_said(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete.shell_integration", None)
    shown = command("completion", "bash")
    assert (shown.code, shown.out) == (1, "")
    assert 'Fix:  uv pip install "sandboxio[completion]"' in shown.err


def test_unknown_shell_is_a_usage_error(command: Any) -> None:
    assert command("completion", "cmd").code == 2


def in_shell(shell: str, script: str) -> list[str]:
    """Run a script in a shell where ``sandboxio`` is the one of this environment."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    quiet = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [program, *quiet, "-c", script],
        env={**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_BOUND,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes(tmp_path: Path) -> None:
    line = "sandboxio doctor lo"
    script = f"""
        eval "$(sandboxio completion bash)"
        COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_TYPE=9
        complete -p sandboxio sbx >/dev/null || exit 1
        _python_argcomplete sandboxio
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert in_shell("bash", script) == ["local"]


def test_fish_completes() -> None:
    script = """
        sandboxio completion fish | source
        complete -C "sandboxio doctor lo"
        complete -C "sbx reap --ki"
    """
    assert [word for word in in_shell("fish", script) if word in ("local", "--kill")] == [
        "local",
        "--kill",
    ]


def test_zsh_takes_it_for_both_names() -> None:
    script = """
        autoload -U compinit && compinit -u -D
        eval "$(sandboxio completion zsh)"
        print -l $_comps[sandboxio] $_comps[sbx]
    """
    assert in_shell("zsh", script) == ["_python_argcomplete"] * 2
