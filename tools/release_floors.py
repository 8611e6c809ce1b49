"""Run the unit tests of a wheel on the lowest versions that its requirements admit.

A floor that nobody tests is a guess. The wheels themselves, and what only tests need, are as in every
other run; what the tests of this wheel must show is that its own requirements are true.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

import dev
import release_build
import workspace

LEFT_OUT: Final = "not slow"
"""What takes long says little about the version of a library; where a service is missing, tests skip."""

PLUGIN: Final = "release_floors_plugin"
"""Runs coroutines with an anyio that does not do so by itself."""

SHOW: Final = """
import importlib.metadata as metadata, json, sys
print(json.dumps({name: metadata.version(name) for name in sys.argv[1:]}))
"""
"""Prints the versions of an environment."""

WITH: Final = {
    "sandboxio-core": {"sandboxio-docker", "sandboxio-local"},
    "sandboxio-e2b": {"sandboxio-testing[e2b]", "sandboxio-local"},
    "sandboxio-mcp": {"sandboxio-docker", "sandboxio-local"},
    "sandboxio-testing": {"sandboxio-e2b"},
}
"""Wheels that the tests of one use and the wheel does not ask for; they bring what they ask for."""

BARE: Final = {"sandboxio-core": {"sandboxio-e2b", "sandboxio-mcp"}}
"""Wheels that are there without what they ask for: core reads what they say of themselves."""


def lowest(root: Path, member: workspace.Member) -> tuple[list[str], list[str]]:
    """Return what to install: the requirements of the wheel, and those of what its tests need.

    The second are the tools of tests and the siblings. They are at their lowest as well, or they would
    decide what the first can be: a new pytest asks for a new pluggy.
    """
    members = {each.name: each for each in workspace.members(root)}
    own = [line for line in _asked(member) if Requirement(line).name not in members]
    others: list[str] = []
    for each in beside(root, member, bare=False):
        extras = {
            extra
            for line in WITH.get(member.name, ())
            if (asked := Requirement(line)).name == each.name
            for extra in asked.extras
        }
        lines: list[str] = list(each.project.get("dependencies", []))
        for extra in sorted(extras):
            lines += each.project["optional-dependencies"][extra]
        others += [line for line in lines if Requirement(line).name not in members]
    tools: list[str] = workspace.root_settings(root)["dependency-groups"]["test"]
    named = {Requirement(line).name for line in own}
    rest = {line for line in [*tools, *others] if Requirement(line).name not in named}
    return own, sorted(rest)


def beside(root: Path, member: workspace.Member, *, bare: bool = True) -> list[workspace.Member]:
    """Return the siblings that are there when the tests of a wheel run: core, the fake, and more."""
    there = {"sandboxio-core", "sandboxio-testing"}
    for lines in (
        _asked(member),
        WITH.get(member.name, ()),
        BARE.get(member.name, ()) if bare else (),
    ):
        there |= {Requirement(line).name for line in lines}
    return [
        each for each in workspace.members(root) if each.name in there and each.name != member.name
    ]


def _asked(member: workspace.Member) -> list[str]:
    lines: list[str] = list(member.project.get("dependencies", []))
    for extra, more in member.project.get("optional-dependencies", {}).items():
        # The tests of agent frameworks run where those are, and not here.
        lines += [] if extra in dev.FRAMEWORKS else more
    return lines


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
            word
            for each in [member, *beside(root, member)]
            for word in ("--editable", str(each.folder))
        ]
        release_build.run_uv(
            "pip", "install", "--python", str(python), "--no-deps", *editable, folder=work
        )
        there = installed(python, own)
        print("  on", *(f"{name}=={version}" for name, version in there.items()), flush=True)
        if guessed := untested(own, there):
            print(*guessed, sep="\n")
            return 1
        # Into the environment itself: an older pytest looks for plugins nowhere else.
        (packages,) = (work / "env" / "lib").glob("python*/site-packages")
        shutil.copy2(root / "tools" / f"{PLUGIN}.py", packages)
        command = [str(python), "-m", "pytest", "-q", *_configured(root, work), "-m", LEFT_OUT]
        return subprocess.run([*command, str(tests), *arguments], cwd=root, check=False).returncode


def installed(python: Path, lines: list[str]) -> dict[str, str]:
    """Return the versions that an environment has of what `lines` require."""
    names = sorted({Requirement(line).name for line in lines})
    done = subprocess.run(
        [str(python), "-c", SHOW, *names], capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def untested(lines: list[str], there: dict[str, str]) -> list[str]:
    """Return the floors below what was installed: something else asks for more, so they are a guess."""
    problems: list[str] = []
    for line in lines:
        requirement = Requirement(line)
        floors = [Version(each.version) for each in requirement.specifier if each.operator == ">="]
        found = there[requirement.name]
        if floors and Version(found) != max(floors):
            problems.append(f"  {line}: what comes with it needs {found}, so that is the floor")
    return problems


def _configured(root: Path, work: Path) -> list[str]:
    """Return the options that configure pytest as always, but for what only new tools know."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    text = re.sub(r'(?m)^(anyio_mode|minversion) = ".*"\n', "", text)
    (work / "pyproject.toml").write_text(text, encoding="utf-8")
    where = ["-c", str(work / "pyproject.toml"), "--rootdir", str(root)]
    return [*where, "-p", PLUGIN, "-o", f"pythonpath={root / 'tools'}"]
