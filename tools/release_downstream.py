"""Run the tests of released wheels against core as it is in this checkout.

Who has installed an adapter gets a new core with the next upgrade, if the range of the adapter admits
it. That combination is on no developer's machine, so it is made here: the adapter and its tests as they
were released, from the tag, and core from the working tree.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

import release_build
import release_history
import release_plan
import workspace

CORE: Final = "sandboxio-core"

LEFT_OUT: Final = "not slow"


def sits_on_core(member: workspace.Member) -> bool:
    """Return whether a wheel is code that calls core, and has tests of its own."""
    return member.name != CORE and member.package is not None


def admits(member: workspace.Member, version: str) -> bool:
    """Return whether the wheel can be installed with that version of core."""
    asked = [Requirement(line) for line in member.requirements]
    return all(
        each.specifier.contains(version, prereleases=True) for each in asked if each.name == CORE
    )


def test(root: Path, member: workspace.Member, arguments: list[str]) -> int | None:
    """Test the last release of a wheel on this core, and return pytest's exit code.

    It is `None` before the first release, and 0 where the release does not admit this core.
    """
    tag = release_history.latest(root, member.name)
    core = release_plan.member_of(root, CORE)
    if tag is None:
        print(f"{member.name}: not released yet", flush=True)
        return None
    with tempfile.TemporaryDirectory(prefix="sandboxio-downstream-") as folder:
        work = Path(folder)
        # The whole tree as it was released: the tests use its configuration and its other wheels.
        then = release_history.clone(root, work / "then")
        release_history.git(then, "checkout", "--quiet", tag)
        released = release_plan.member_of(then, member.name)
        if not admits(released, core.version):
            print(f"{tag}: does not admit core {core.version}, so nobody has the two", flush=True)
            return 0
        print(f"{tag} on core {core.version} of this checkout", flush=True)
        python = _environment(root, then, work)
        command = [str(python), "-m", "pytest", "-q", "-m", LEFT_OUT, "-p", "no:cacheprovider"]
        tests = f"packages/{member.name}/tests"
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [*command, tests, *arguments], cwd=then, env=env, check=False
        ).returncode


def _environment(root: Path, then: Path, work: Path) -> Path:
    """Make an environment with the wheels and tools of then, and core of now."""
    members = workspace.members(then)
    names = {member.name for member in members}
    third = [
        line
        for member in members
        for line in member.project.get("dependencies", [])
        if Requirement(line).name not in names
    ]
    # What this core asks for comes with it.
    core = release_plan.member_of(root, CORE)
    third += core.project["dependencies"]
    tools: list[str] = workspace.root_settings(then)["dependency-groups"]["test"]
    python = release_build.environment(
        work, sorted({*third, *tools}), constraints=release_build.pinned(then)
    )
    wheels = [member.folder for member in members if member.name != CORE] + [core.folder]
    editable = [word for folder in wheels for word in ("--editable", str(folder))]
    release_build.run_uv(
        "pip", "install", "--python", str(python), "--no-deps", *editable, folder=work
    )
    return python
