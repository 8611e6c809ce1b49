"""Run the unit tests of a wheel on the lowest versions that its requirements admit.

A floor that nobody tests is a guess. The wheels themselves, and what only tests need, are as in every
other run; what the tests of this wheel must show is that its own requirements are true.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

import release_build
import workspace

LEFT_OUT: Final = "not slow and not docker and not e2b"
"""What takes long or needs a service says nothing about the version of a library."""

FRAMEWORKS: Final = frozenset(
    {"deepagents", "langchain", "openai-agents", "pydantic-ai", "smolagents"}
)
"""Extras whose tests run where the frameworks are, and not here."""

SHOW: Final = """
import importlib.metadata as metadata, sys
print("  on", *(f"{name}=={metadata.version(name)}" for name in sys.argv[1:]), sep="  ", flush=True)
"""
"""Says which versions are there, for the log."""


def lowest(root: Path, member: workspace.Member) -> tuple[list[str], list[str]]:
    """Return what to install: the requirements of the wheel, and the rest in the usual versions.

    The rest is what its siblings ask for, and the tools of tests.
    """
    ours = {each.name for each in workspace.members(root)}
    own = [line for line in _asked(member) if Requirement(line).name not in ours]
    named = {_key(line) for line in own}
    pins = {_key(pin): pin for pin in release_build.pinned(root)}
    groups = workspace.root_settings(root)["dependency-groups"]
    others = [line for each in workspace.members(root) if each != member for line in _asked(each)]
    rest = [
        pins[_key(line)]
        for line in [*groups["test"], *others]
        if _key(line) not in named and _key(line) in pins
    ]
    return own, sorted(set(rest))


def _asked(member: workspace.Member) -> list[str]:
    lines: list[str] = list(member.project.get("dependencies", []))
    for extra, more in member.project.get("optional-dependencies", {}).items():
        lines += [] if extra in FRAMEWORKS else more
    return lines


def _key(line: str) -> str:
    return Requirement(line).name.lower().replace("_", "-").replace(".", "-")


def test(root: Path, member: workspace.Member, arguments: list[str]) -> int:
    """Install the lowest versions, say which, run the tests, and return pytest's exit code."""
    tests = member.folder / "tests"
    own, rest = lowest(root, member)
    print(f"{member.name}: {', '.join(own) or 'asks for nothing but its siblings'}", flush=True)
    if not own or not tests.is_dir():
        return 0
    with tempfile.TemporaryDirectory(prefix="sandboxio-floors-") as folder:
        work = Path(folder)
        python = release_build.environment(
            work, [*own, *rest], constraints=[], options=("--resolution", "lowest-direct")
        )
        editable = [
            word for each in workspace.members(root) for word in ("--editable", str(each.folder))
        ]
        release_build.run_uv(
            "pip", "install", "--python", str(python), "--no-deps", *editable, folder=work
        )
        release_build.run_uv("pip", "check", "--python", str(python), folder=work)
        show = [str(python), "-c", SHOW, *(Requirement(line).name for line in own)]
        subprocess.run(show, cwd=work, check=True)
        command = [str(python), "-m", "pytest", "-q", "-m", LEFT_OUT, str(tests), *arguments]
        return subprocess.run(command, cwd=root, check=False).returncode
