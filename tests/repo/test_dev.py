"""The verbs: they explain themselves, and what they do not know they say."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dev
import workspace


def test_help_has_a_line_for_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for verb in dev.VERBS:
        assert any(line.split()[:1] == [verb] and len(line.split()) > 3 for line in lines), verb


def test_unknown_verb_fails_and_shows_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(["tset"]) == 2
    assert "No such verb: tset" in capsys.readouterr().err


def test_unknown_check_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(["check", "spelling"]) == 2
    assert "There are: ruff" in capsys.readouterr().out


def test_tools_need_nothing_but_the_standard_library() -> None:
    """Whoever has only Python starts with them."""
    code = "import dev, dockerd, leftovers, pins, release, uv, workspace"
    answer = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-W",
            "error",
            "-c",
            f"import sys; sys.path.insert(0, 'tools'); {code}",
        ],
        cwd=workspace.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
