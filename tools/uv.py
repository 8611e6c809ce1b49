"""Find uv, or bring it, and run it for this workspace.

A machine needs Python and pip for this, and neither uv nor the `venv` module: pip puts a uv into
`.venv-uv`, a folder of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
VENV: Final = ROOT / ".venv"
PRIVATE: Final = ROOT / ".venv-uv"

# The oldest uv that reads this workspace (`required-version` in pyproject.toml says it to uv), and
# the one that is brought where there is none.
OLDEST: Final = (0, 9)
BROUGHT: Final = "uv==0.13.9"


class UvError(Exception):
    """uv is not to be had; the message says what to do."""


def find() -> Path | None:
    """Return a uv that is new enough: the one on PATH, else the private one, else `None`."""
    candidates = [shutil.which("uv"), shutil.which("uv", path=str(PRIVATE / "bin"))]
    for candidate in candidates:
        if candidate and version(candidate) >= OLDEST:
            return Path(candidate)
    return None


def version(executable: str) -> tuple[int, ...]:
    """Return the version of a uv, or `()` when it does not run."""
    try:
        answer = subprocess.run(
            [executable, "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return ()
    match = re.match(r"uv (\d+)\.(\d+)\.(\d+)", answer.stdout)
    return tuple(int(part) for part in match.groups()) if match else ()


def bring() -> Path:
    """Return a uv, installing one into `.venv-uv` when there is none."""
    found = find()
    if found:
        return found
    print(f"No uv here: pip brings {BROUGHT} into {PRIVATE.name}.", flush=True)
    # `--target` needs no venv module (Debian ships Python without it) and touches no environment.
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Root in a private folder is what we mean: pip's warning about it would be noise.
    command += ["--root-user-action=ignore", "--upgrade", "--target", str(PRIVATE), BROUGHT]
    done = subprocess.run(command, check=False)
    found = find() if done.returncode == 0 else None
    if not found:
        message = "pip could not bring uv: install uv yourself and put it on PATH."
        raise UvError(message)
    return found


def environment() -> dict[str, str]:
    """Return the environment that uv runs in.

    uv does not read pip's configuration. A machine whose pip is told to use another index, or to trust
    another authority, gets its packages that way with uv too, and no file of ours has to name one.
    """
    env = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(VENV)}
    env.pop("VIRTUAL_ENV", None)  # someone else's environment is not the one that we work on
    pip = settings_of_pip()
    if "index-url" in pip and not env.keys() & {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}:
        env["UV_DEFAULT_INDEX"] = pip["index-url"]
    if "cert" in pip:
        env.setdefault("SSL_CERT_FILE", pip["cert"])
    return env


def settings_of_pip() -> dict[str, str]:
    """Return what pip's configuration files and variables set, by the name of the option.

    Where several set the same, pip lists and obeys the variable last; so does this.
    """
    answer = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, str] = {}
    # Lines like `global.index-url='...'` and, for a variable, `:env:.index-url='...'`.
    for line in sorted(answer.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        match = re.fullmatch(r"(?:global|install|:env:)\.([a-z-]+)=(['\"])(.*)\2", line.strip())
        if match:
            found[match[1]] = match[3]
    return found


def run(*arguments: str, quiet: bool = False) -> int:
    """Run uv in the workspace and return its exit code; `quiet` shows only what went wrong."""
    command = [str(bring()), *(["--quiet"] if quiet else []), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode
