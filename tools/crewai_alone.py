"""Test `sandboxio.integrations.crewai` with CrewAI, in an environment of its own.

    python3 tools/dev.py crewai           types, tests and the example
    python3 tools/dev.py crewai --lock    find the versions of tools/crewai.txt anew

CrewAI asks for older versions of what it shares with the other frameworks than those take, so no
environment can hold it and them. Its exact versions are in `crewai.txt`, which names no index.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

import uv

ROOT: Final = uv.ROOT
VENV: Final = ROOT / ".cache" / "crewai"
PYTHON: Final = VENV / "bin" / "python"
STAMP: Final = VENV / "sandboxio-setup"
WANTED: Final = ROOT / "tools" / "crewai.in"
LOCKED: Final = ROOT / "tools" / "crewai.txt"

OURS: Final = ("sandboxio-core", "sandboxio-local", "sandboxio-testing")
MODULE: Final = "packages/sandboxio-core/src/sandboxio/integrations/crewai.py"
TESTS: Final = "packages/sandboxio-core/tests/integrations/frameworks/test_crewai.py"
THEIRS: Final = ("-W", "ignore::ImportWarning", "-W", "ignore::DeprecationWarning")
"""Warnings that importing CrewAI makes; everything else is an error here too."""
EXAMPLE: Final = "docs/examples/integrations/crewai_agent.py"


def lock(arguments: list[str]) -> int:
    """Write `crewai.txt` from `crewai.in`; what is in it stays where it is without `--upgrade`."""
    return uv.run(
        # The pins of the workspace are not for here.
        *("--no-config", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
        *("--no-header", "--no-annotate", str(WANTED), "--output-file", str(LOCKED), *arguments),
    )


def set_up() -> int:
    """Make the environment; do nothing if it is there and nothing has changed."""
    digest = hashlib.sha256(f"{platform.python_version()} {ROOT}".encode() + LOCKED.read_bytes())
    if PYTHON.exists() and STAMP.exists() and STAMP.read_text() == digest.hexdigest():
        return 0
    editable = [word for wheel in OURS for word in ("--editable", str(ROOT / "packages" / wheel))]
    code = uv.run("venv", "--quiet", "--clear", "--python", sys.executable, str(VENV)) or uv.run(
        *("--no-config", "pip", "install", "--quiet", "--python", str(PYTHON)),
        *("--requirement", str(LOCKED), *editable),
    )
    if code == 0:
        STAMP.write_text(digest.hexdigest())
    return code


def run(*command: str) -> int:
    """Run a command from the root and return its exit code."""
    print("---", *command[:4], flush=True)
    # Without these it would tell its maker about our tests.
    quiet = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **quiet}, check=False).returncode


def main(arguments: list[str]) -> int:
    """Set up, check the types, run tests and example; return an exit code."""
    if arguments[:1] == ["--lock"]:
        return lock(arguments[1:])
    if code := set_up():
        return code
    tools = Path(sys.executable).parent
    codes = [
        run(str(tools / "mypy"), "--python-executable", str(PYTHON), MODULE),
        run(str(tools / "pyright"), "--pythonpath", str(PYTHON), MODULE, TESTS),
        run(str(PYTHON), "-m", "pytest", "-p", "no:cacheprovider", *THEIRS, TESTS, *arguments),
        run(str(PYTHON), EXAMPLE),
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
