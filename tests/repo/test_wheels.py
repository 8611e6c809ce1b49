"""The wheels themselves: what is in them, and that each works alone.

In the workspace every wheel sees every other's dependencies, so only an installation by itself shows
that a requirement is missing.
"""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import pins
import release_rehearsal
import uv
import workspace

pytestmark = pytest.mark.slow

MEMBERS = {member.name: member for member in workspace.members()}
each_wheel = pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda member: member.name)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every wheel of the workspace, built."""
    out = tmp_path_factory.mktemp("wheels")
    for member in MEMBERS.values():
        done = subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", out],
            cwd=member.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    built = {path.name.partition("-")[0].replace("_", "-"): path for path in out.iterdir()}
    assert built.keys() == MEMBERS.keys()
    return built


def siblings_of(member: workspace.Member) -> set[str]:
    """The wheels of ours that `member` needs, with what they need in turn, without its extras."""
    direct = {Requirement(line).name for line in member.project["dependencies"]} & MEMBERS.keys()
    return direct.union(*(siblings_of(MEMBERS[name]) for name in direct))


@each_wheel
def test_wheel_holds_its_own_files_and_no_others(
    member: workspace.Member, wheels: dict[str, Path]
) -> None:
    with zipfile.ZipFile(wheels[member.name]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        licences = [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]
    expected: set[str] = set()
    if member.package:
        source = member.package.parent
        expected = {
            str(path.relative_to(source))
            for path in member.package.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert f"{member.package.name}/py.typed" in names
    assert names == expected
    assert len(licences) == 1
    assert not any(Path(name).name.startswith("test_") or "tests" in name for name in names)


@each_wheel
def test_wheel_carries_the_bounds_of_its_siblings(
    member: workspace.Member, wheels: dict[str, Path]
) -> None:
    with zipfile.ZipFile(wheels[member.name]) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    required = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    assert all(requirement.url is None for requirement in required)
    assert all(
        {clause.operator for clause in requirement.specifier} == {">=", "<"}
        for requirement in required
        if requirement.name in MEMBERS
    )


@each_wheel
def test_wheel_works_alone(
    member: workspace.Member, wheels: dict[str, Path], tmp_path: Path
) -> None:
    """Installed with what it asks for and nothing else, every module of it can be imported."""
    # Siblings are named by file: an index may hold other wheels of these names.
    files = [str(wheels[name]) for name in sorted({member.name} | siblings_of(member))]
    constraints = tmp_path / "constraints.txt"
    project = (workspace.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    constraints.write_text("\n".join(pins.pins_of_project(project)), encoding="utf-8")
    python = tmp_path / "alone" / "bin" / "python"
    run_uv("venv", "--python", sys.executable, str(python.parent.parent), folder=tmp_path)
    install = ["pip", "install", "--python", str(python), "--constraint", str(constraints), *files]
    run_uv(*install, folder=tmp_path)
    run_uv("pip", "check", "--python", str(python), folder=tmp_path)
    imports = "\n".join(f"import {module}" for module in importable(member))
    answer = subprocess.run(
        [python, "-I", "-W", "error", "-c", imports],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr


def importable(member: workspace.Member) -> list[str]:
    """The modules of a wheel but those whose libraries come with an extra."""
    return [name for name in member.modules() if not release_rehearsal.OPTIONAL.match(name)]


def run_uv(*arguments: str, folder: Path) -> None:
    """Run uv outside of the workspace, so that nothing of it is found."""
    done = subprocess.run(
        [str(uv.bring()), "--quiet", "--no-config", *arguments],
        cwd=folder,
        env=uv.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
