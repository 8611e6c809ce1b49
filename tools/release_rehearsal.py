"""Go the whole way of a release in a clone that is thrown away, from the bump to the installed wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

import dockerd
import release_build
import release_changelog
import release_history
import release_plan
import workspace

COMMAND_SECONDS: Final = 120
"""Bound of one command in the new environment; a demonstration takes one or two."""

OPTIONAL: Final = re.compile(
    r"sandboxio\.integrations\.|sandboxio_testing\.(e2b\._|suite\.properties)|.*\.inside\."
)
"""Modules whose libraries come with an extra: integrations, the server of the local E2B, properties.

What is called `inside` is sent into a sandbox as text and runs there; nobody imports it.
"""


def rehearse(root: Path, wheel: str, say: Callable[[str], None]) -> None:
    """Release `wheel` in a clone of the last commit of `root`; raise `SystemExit` where it fails."""
    with tempfile.TemporaryDirectory(prefix="sandboxio-rehearsal-") as folder:
        work = Path(folder)
        clone = release_history.clone(root, work / "clone")
        version = release_plan.plan(clone, release_plan.member_of(clone, wheel)).proposal
        tag = f"{wheel}=={version}"
        say(f"bump to {version}")
        bumped(clone, wheel, version)
        release_history.commit_all(clone, f"Release {tag}")
        release_history.git(clone, "-c", "tag.gpgsign=false", "tag", tag)
        member = ready(clone, tag)
        say("build twice, and compare")
        files = release_build.build(clone, wheel, work / "dist", tag)
        (built,) = (path for path in files if path.suffix == ".whl")
        siblings = floors(clone, member, work / "siblings", say)
        say("install in a new environment")
        python = release_build.environment(
            work,
            [f"{wheel}{extras(member)} @ {built.as_uri()}", *(path.as_uri() for path in siblings)],
            constraints=release_build.pinned(clone),
        )
        bill = release_build.bill_of_materials(clone, member, python, work / "dist", tag)
        say(f"list {len(release_build.components(bill))} components")
        say("import every module")
        imports = "\n".join(f"import {name}" for name in modules(built))
        run([str(python), "-I", "-W", "error", "-c", imports], work)
        for command in demonstrations(member, python, clone, work):
            say(" ".join(["run", Path(command[0]).name, *command[1:]]))
            run(command, work)


def bumped(root: Path, wheel: str, version: str) -> None:
    """Bump a wheel, or raise `SystemExit` with what stands in the way."""
    member = release_plan.member_of(root, wheel)
    reasons = release_plan.refusals(root, member, version)
    if reasons:
        raise SystemExit("\n".join([f"{wheel} cannot become {version}:", *reasons]))
    release_changelog.bump(root, member, version, today=date.today())


def ready(root: Path, tag: str) -> workspace.Member:
    """Return the wheel that a tag releases; raise `SystemExit` if the tag and the tree disagree."""
    wheel, equals, version = tag.partition("==")
    if not equals:
        raise SystemExit(f"{tag} is no tag of a release: those are <wheel>==<version>.")
    member = release_plan.member_of(root, wheel)
    problems: list[str] = []
    if member.version != version:
        problems.append(f"{wheel} is at {member.version}, and the tag says {version}")
    left = [path.name for path in release_plan.fragments(member)]
    if left:
        problems.append(f"news fragments are not in the changelog yet: {', '.join(left)}")
    if release_changelog.notes(member, version) is None:
        problems.append(f"the changelog has no section for {version}")
    if problems:
        raise SystemExit("\n".join([f"{tag} cannot be released:", *problems]))
    return member


def extras(member: workspace.Member) -> str:
    """Return the extras to install: those of siblings, for the wheel that consists of them."""
    return "" if member.package else "[local]"


def floors(
    root: Path, member: workspace.Member, out: Path, say: Callable[[str], None]
) -> list[Path]:
    """Build the siblings that a wheel needs, each at the lowest version that its range admits.

    That is the oldest release in the range. What was never released is built from this checkout.
    """
    built: list[Path] = []
    for name, lines in sorted(siblings(root, member).items()):
        ranges = [Requirement(line).specifier for line in lines]
        admitted = [
            version
            for version in release_history.releases(root, name)
            if all(each.contains(version) for each in ranges)
        ]
        revision = f"{name}=={min(admitted)}" if admitted else "HEAD"
        sibling = release_plan.member_of(root, name)
        version = str(min(admitted)) if admitted else sibling.version
        if not all(each.contains(Version(version)) for each in ranges):
            raise SystemExit(f"{member.name} needs {', '.join(lines)}, and {version} is not that.")
        say(f"with {name} {version}{'' if admitted else ', which was never released'}")
        files = release_build.build(root, name, out, revision)
        built += [path for path in files if path.suffix == ".whl"]
    return built


def siblings(root: Path, member: workspace.Member) -> dict[str, list[str]]:
    """Return the wheels of the workspace that one needs, with the requirements, and those of these."""
    members = {each.name: each for each in workspace.members(root)}
    needed: dict[str, list[str]] = {}
    todo = [member]
    while todo:
        current = todo.pop()
        lines: list[str] = list(current.project.get("dependencies", []))
        if current is member and not member.package:
            lines += member.project["optional-dependencies"]["local"]
        for line in lines:
            name = Requirement(line).name
            if name in members:
                if name not in needed:
                    todo.append(members[name])
                needed.setdefault(name, []).append(line)
    return needed


def modules(built: Path) -> list[str]:
    """Return the modules in a wheel that can be imported without an extra."""
    with zipfile.ZipFile(built) as archive:
        names = [name.removesuffix(".py") for name in archive.namelist() if name.endswith(".py")]
    dotted = [name.removesuffix("/__init__").replace("/", ".") for name in names]
    return [name for name in sorted(dotted) if not OPTIONAL.match(name) and "__main__" not in name]


def demonstrations(
    member: workspace.Member, python: Path, root: Path, work: Path
) -> list[list[str]]:
    """Return the commands that show that a wheel does what it is for, where that is free and offline."""
    sandboxio = str(python.parent / "sandboxio")
    commands = [[sandboxio, "--version"]]
    if member.name in {"sandboxio", "sandboxio-local"}:
        commands.append([sandboxio, "demo", "--backend", "local://"])
    elif member.name == "sandboxio-docker" and dockerd.missing() is None:
        commands.append([sandboxio, "demo", "--backend", f"docker://{dockerd.PYTHON_IMAGE}"])
    elif member.name == "sandboxio-mcp":
        commands.append([sandboxio, "mcp", "--help"])
    elif member.name == "sandboxio-testing":
        # Away from the workspace, whose configuration asks for plugins that a user does not have.
        example = root / "docs" / "examples" / "testing" / "test_my_tool.py"
        copy = shutil.copy2(example, work)
        commands.append([str(python), "-m", "pytest", "-q", str(copy)])
    return commands


def run(command: list[str], folder: Path) -> None:
    """Run a command with nothing of this checkout around it; raise `SystemExit` if it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        raise SystemExit(f"{' '.join(command)} did not end.") from expired
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
