#!/usr/bin/env python3
"""The verbs of this workspace, for a person, a coding agent and CI alike.

    python3 tools/dev.py VERB [arguments for the tool behind it]

It needs Python 3.11 or newer with pip, and brings everything else into the checkout. Every verb
starts with `setup`, which does nothing when nothing has changed.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - whoever starts this with an older Python learns why
    sys.exit("sandboxio is developed with Python 3.11 or newer: python3.11 tools/dev.py ...")

import fcntl
import hashlib
import os
import platform
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import pins
import uv

ROOT: Final = uv.ROOT
BIN: Final = uv.VENV / "bin"
STAMP: Final = uv.VENV / "sandboxio-setup"
FRAMEWORKS: Final = ("deepagents", "langchain", "openai-agents", "pydantic-ai", "smolagents")
"""Extras of core that bring an agent framework each: heavy, so only `setup --frameworks` does."""


class Failed(Exception):
    """A step failed and has said why; carries the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


# --- running things ------------------------------------------------------------------------------


def tool(name: str, *arguments: str) -> int:
    """Run a program of the workspace's environment from the root and return its exit code."""
    env = {
        **os.environ,
        "VIRTUAL_ENV": str(uv.VENV),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    }
    return subprocess.run([str(BIN / name), *arguments], cwd=ROOT, env=env, check=False).returncode


def must(code: int) -> None:
    """Stop here unless `code` is 0."""
    if code:
        raise Failed(code)


def missing(what: str) -> int:
    """Say that a part of the workspace is not there yet, and fail."""
    print(f"There is no {what} in this checkout yet.", file=sys.stderr)
    return 1


# --- setup and lock ------------------------------------------------------------------------------


def fingerprint() -> str:
    """Return a digest of all that decides what is installed: requirements, lock and Python."""
    digest = hashlib.sha256(f"{platform.python_version()} {uv.ROOT}".encode())
    lock = ROOT / "uv.lock"
    for path in [ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml")), lock]:
        digest.update(path.read_bytes() if path.exists() else b"none")
    return digest.hexdigest()


def stamp() -> list[str]:
    """Return what was written down when the environment was made; nothing if there is none."""
    there = (BIN / "python").exists() and STAMP.exists()
    return STAMP.read_text(encoding="utf-8").split() if there else []


def has_frameworks() -> bool:
    """Return whether the environment holds the agent frameworks."""
    return "frameworks" in stamp()


def is_set_up(*, frameworks: bool) -> bool:
    """Return whether the environment matches the checkout, without starting anything."""
    return fingerprint() in stamp() and (has_frameworks() or not frameworks)


@contextmanager
def alone() -> Generator[None]:
    """Let one `setup` or `lock` of this checkout run at a time; the others wait for it."""
    # The folder itself is what is locked: that needs no file, and the kernel forgets it with us.
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def setup(arguments: list[str]) -> int:
    """Make .venv with every wheel and tool; `--frameworks` adds those of agents, `--force` redoes it.

    An environment that has the frameworks keeps them.
    """
    force = "--force" in arguments
    frameworks = "--frameworks" in arguments
    if is_set_up(frameworks=frameworks) and not force:
        return 0
    with alone():
        if is_set_up(frameworks=frameworks) and not force:
            return 0
        must(uv.run("lock", *python()))
        must(sync(frameworks=frameworks))
    return 0


def sync(*, frameworks: bool = False) -> int:
    """Install what uv.lock says, and write down that this was done."""
    frameworks = frameworks or has_frameworks()
    chosen = ["--group", "frameworks"]
    if not frameworks:
        chosen = [word for extra in FRAMEWORKS for word in ("--no-extra", extra)]
    code = uv.run("sync", "--frozen", "--all-packages", "--all-extras", *chosen, *python())
    if code == 0:
        STAMP.write_text(f"{fingerprint()}{' frameworks' * frameworks}", encoding="utf-8")
    return code


def python() -> list[str]:
    """Return uv's arguments that choose the Python that runs this, and never download one."""
    inside = Path(sys.prefix) == uv.VENV
    return ["--no-python-downloads", *([] if inside else ["--python", sys.executable])]


def lock(arguments: list[str]) -> int:
    """Lock after a change of requirements; `--upgrade` or `-P NAME` moves versions. Writes the pins.

    What is pinned stays where it is; a new requirement gets the newest version that fits.
    """
    project = ROOT / "pyproject.toml"
    before = project.read_text(encoding="utf-8")
    with alone():
        try:
            pins.write_pins(kept_pins(arguments))
            must(uv.run("lock", *arguments, *python()))
            # The pins are part of what the lock records, so it is made once more; and from nothing,
            # as a fresh clone makes it, because uv keeps the forks of a lock that is there. Those
            # are in the markers of the pins, so the second round is the first to agree with them.
            for _ in range(2):
                pins.write_pins(pins.pins_of_lock(pins.read_lock()))
                (ROOT / "uv.lock").unlink()
                must(uv.run("lock", *python(), quiet=True))
        except BaseException:
            project.write_text(before, encoding="utf-8")
            raise
        return sync()


def kept_pins(arguments: list[str]) -> list[str]:
    """Return the pins that stay in force while `arguments` ask uv to upgrade something."""
    kept = pins.pins_of_project((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if {"--upgrade", "-U"} & set(arguments):
        return []
    options = {"-P", "--upgrade-package"}
    moving = {new for old, new in pairwise(arguments) if old in options}
    return [pin for pin in kept if pin.partition("==")[0] not in moving]


# --- the other verbs -----------------------------------------------------------------------------


def demo(arguments: list[str]) -> int:
    """Run code in a sandbox of this machine: `sandboxio demo`."""
    setup([])
    return tool("sandboxio", "demo", *arguments)


CHECKS: Final[dict[str, Callable[[], int]]] = {
    "ruff": lambda: tool("ruff", "check"),
    "format": lambda: tool("ruff", "format", "--check"),
    "pyright": lambda: tool("pyright"),
    "mypy": lambda: tool("mypy"),
    "imports": lambda: tool("lint-imports", "--no-logo"),
    "pip": lambda: uv.run("pip", "check", "--python", str(BIN / "python"), quiet=True),
    "pins": lambda: pins.main([]),
    "api": lambda: tool("python", "tools/api_snapshot.py", "--check"),
    # Offline: what it would ask GitHub is for `.github/workflows/security.yml`.
    "workflows": lambda: tool(
        "zizmor", "--offline", "--quiet", "--no-progress", "--persona=pedantic", ".github"
    ),
}


def check(arguments: list[str]) -> int:
    """Run every static check, or those named: ruff format pyright mypy imports pip pins api workflows."""
    unknown = sorted(set(arguments) - CHECKS.keys())
    if unknown:
        print(f"No such check: {', '.join(unknown)}. There are: {', '.join(CHECKS)}.")
        return 2
    # What the types of an integration are, only its framework can say.
    setup(["--frameworks"])
    failed: list[str] = []
    for name in arguments or CHECKS:
        print(f"--- {name}", flush=True)
        if CHECKS[name]() != 0:
            failed.append(name)
    print(f"Failed: {', '.join(failed)}." if failed else "All checks passed.")
    return 1 if failed else 0


def fix(arguments: list[str]) -> int:
    """Let ruff repair and format what it can."""
    setup([])
    repaired = tool("ruff", "check", "--fix", *arguments)
    return tool("ruff", "format", *arguments) or repaired


IN_PARALLEL: Final = ("-n", "2", "--dist", "loadfile")
"""Arguments for all the tests at once: two processes, as most tests wait for a sandbox. See conftest.py."""


def test(arguments: list[str]) -> int:
    """Run the tests, all of them or those that pytest's arguments choose."""
    setup([])
    return tool("python", "-m", "pytest", *(arguments or IN_PARALLEL))


def contract(arguments: list[str]) -> int:
    """Run the contract suite: against every backend at hand, or the one that is named."""
    setup([])
    folder = ROOT / "tests-contract"
    if not folder.is_dir():
        return missing("tests-contract/")
    chosen = [str(folder)]
    if arguments and not arguments[0].startswith("-"):
        backend, *arguments = arguments
        chosen = [str(path) for path in sorted(folder.glob(f"test_{backend}*.py"))]
        if not chosen:
            return missing(f"contract run of `{backend}`")
    return tool("python", "-m", "pytest", *chosen, *arguments)


def script(name: str, promise: str, *needs: str) -> Callable[[list[str]], int]:
    """Return a verb that runs `tools/<name>.py` in the environment; `promise` is its help."""

    def verb(arguments: list[str]) -> int:
        setup(list(needs))
        path = ROOT / "tools" / f"{name}.py"
        return (
            tool("python", str(path), *arguments) if path.exists() else missing(f"tools/{name}.py")
        )

    verb.__doc__ = promise
    return verb


def show_pins(arguments: list[str]) -> int:
    """Say whether the committed pins and uv.lock agree; `--write` takes the lock's versions over."""
    return pins.main(arguments)


VERBS: Final[dict[str, Callable[[list[str]], int]]] = {
    "setup": setup,
    "demo": demo,
    "check": check,
    "fix": fix,
    "test": test,
    "contract": contract,
    "docs": script("docs", "Build the documentation and check that it is true.", "--frameworks"),
    "crewai": script(
        "crewai_alone", "Test the integration of CrewAI, in an environment of its own."
    ),
    "bench": script("bench", "Measure the speed of this checkout on this machine."),
    "api": script("api_snapshot", "Write the snapshots of what each wheel promises anew."),
    "pins": show_pins,
    "lock": lock,
}


def usage() -> str:
    """Return the help text: what this is, and one line for each verb."""
    verbs = "\n".join(
        f"  {name:<10}{(verb.__doc__ or '').splitlines()[0]}" for name, verb in VERBS.items()
    )
    return f"{(__doc__ or '').strip()}\n\nVerbs:\n{verbs}"


def main(argv: list[str]) -> int:
    """Run one verb and return its exit code."""
    if not argv or argv[0] in {"-h", "--help", "help"}:
        print(usage())
        return 0
    verb = VERBS.get(argv[0])
    if verb is None:
        print(f"No such verb: {argv[0]}.\n\n{usage()}", file=sys.stderr)
        return 2
    try:
        return verb(argv[1:])
    except Failed as failure:
        return failure.code
    except (pins.PinsError, uv.UvError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
