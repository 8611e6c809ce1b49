"""The rules that the root `conftest.py` makes for all tests, tried on tests written here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import workspace

PROBE = """
import pytest
import sniffio
from collections.abc import Iterator

@pytest.fixture(scope="module")
def daemon() -> Iterator[None]:
    raise AssertionError("made although nobody answers")
    yield

@pytest.mark.docker
def test_needs_docker(daemon: None) -> None: ...

@pytest.mark.e2b
def test_needs_e2b() -> None: ...

async def test_coroutine() -> None:
    print("ran on", sniffio.current_async_library())
"""


def test_what_is_not_at_hand_skips_by_name_and_coroutines_run_on_both_loops(
    tmp_path: Path,
) -> None:
    probe = tmp_path / "test_probe.py"
    probe.write_text(PROBE, encoding="utf-8")
    root = workspace.ROOT
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-s", "-ra", "-p", "no:cacheprovider"),
            *("-c", str(root / "pyproject.toml"), "--rootdir", str(root)),
            *("-p", "conftest", str(probe)),
        ],
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if name != "E2B_API_KEY"},
            "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock",
            "PYTHONPATH": f"{root}{os.pathsep}{root / 'tools'}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "docker: no Docker daemon answers on this machine" in answer.stdout
    assert "e2b: E2B_API_KEY is not set" in answer.stdout
    assert "ran on asyncio" in answer.stdout
    assert "ran on trio" in answer.stdout
    assert "2 passed, 2 skipped" in answer.stdout
