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


def run_probe(folder: Path, source: str = PROBE, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the tests above where there is no service."""
    probe = folder / "test_probe.py"
    probe.write_text(source, encoding="utf-8")
    root = workspace.ROOT
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("E2B_API_KEY", "SBX_REQUIRE_DOCKER", "SBX_REQUIRE_FRAMEWORKS")
    }
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-s", "-ra", "-p", "no:cacheprovider"),
            *("-c", str(root / "pyproject.toml"), "--rootdir", str(root)),
            *("-p", "conftest", str(probe)),
        ],
        cwd=folder,
        env={
            **inherited,
            "DOCKER_HOST": f"unix://{folder}/nobody.sock",
            "PYTHONPATH": f"{root}{os.pathsep}{root / 'tools'}",
            **env,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_not_at_hand_skips_by_name_and_coroutines_run_on_both_loops(
    tmp_path: Path,
) -> None:
    answer = run_probe(tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "docker: no Docker daemon answers on this machine" in answer.stdout
    assert "e2b: E2B_API_KEY is not set" in answer.stdout
    assert "ran on asyncio" in answer.stdout
    assert "ran on trio" in answer.stdout
    assert "2 passed, 2 skipped" in answer.stdout


def test_engine_that_was_promised_and_is_missing_fails_by_name(tmp_path: Path) -> None:
    answer = run_probe(tmp_path, SBX_REQUIRE_DOCKER="1")
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "no Docker daemon answers on this machine, and SBX_REQUIRE_DOCKER is 1" in answer.stdout
    assert "made although nobody answers" not in answer.stdout
    assert "2 passed, 1 skipped, 1 error" in answer.stdout


NO_FRAMEWORK = """
import pytest

pytest.importorskip("no_such_framework", reason="it is not installed: tools/dev.py setup --frameworks")

def test_needs_it() -> None: ...
"""


def test_missing_framework_skips_by_name_unless_it_was_promised(tmp_path: Path) -> None:
    skipped = run_probe(tmp_path, source=NO_FRAMEWORK)
    assert skipped.returncode == 5, skipped.stdout + skipped.stderr
    assert "it is not installed: tools/dev.py setup --frameworks" in skipped.stdout
    failed = run_probe(tmp_path, source=NO_FRAMEWORK, SBX_REQUIRE_FRAMEWORKS="1")
    assert failed.returncode not in (0, 5), failed.stdout
    assert "SBX_REQUIRE_FRAMEWORKS is 1" in failed.stdout
