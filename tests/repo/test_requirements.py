"""What the wheels ask of each other and of the world.

uv takes siblings from the workspace and does not look at their bounds, so wrong ones would first be
noticed by whoever installs the wheels from an index.
"""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import dev
import uv
import workspace

MEMBERS = {member.name: member for member in workspace.members()}
CAPPED = {
    # A major of MCP's SDK is another library: of version 1's server, version 2 has no name left.
    "mcp": ("sandboxio-mcp", "<3"),
}
SIBLINGS = [
    pytest.param(member, Requirement(line), id=f"{member.name} needs {line}")
    for member in MEMBERS.values()
    for line in member.requirements
    if Requirement(line).name in MEMBERS
]


@pytest.mark.parametrize(("member", "requirement"), SIBLINGS)
def test_sibling_is_required_by_a_range_that_admits_the_workspace(
    member: workspace.Member, requirement: Requirement
) -> None:
    operators = {clause.operator for clause in requirement.specifier}
    assert ">=" in operators, f"{member.name} needs a floor for {requirement.name}"
    assert "<" in operators, f"{member.name} needs a ceiling for {requirement.name}"
    assert "==" not in operators, (
        f"{member.name} pins {requirement.name}, which blocks its releases"
    )
    assert "===" not in operators
    assert MEMBERS[requirement.name].version in requirement.specifier


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda member: member.name)
def test_every_wheel_but_core_sits_on_core(member: workspace.Member) -> None:
    needed = {Requirement(line).name for line in member.project["dependencies"]}
    if member.name == "sandboxio-core":
        assert needed == {"anyio", "pluggy", "typing-extensions"}
    else:
        assert "sandboxio-core" in needed


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda member: member.name)
def test_third_parties_have_loose_lower_bounds_only(member: workspace.Member) -> None:
    """But agent frameworks have a ceiling too: what an integration builds on is not settled.

    So have those that `CAPPED` names, each with its reason.
    """
    extras = member.project.get("optional-dependencies", {})
    frameworks = [line for name in dev.FRAMEWORKS for line in extras.get(name, [])]
    for line in member.requirements:
        requirement = Requirement(line)
        if requirement.name not in MEMBERS:
            operators = {clause.operator for clause in requirement.specifier}
            capped = CAPPED.get(requirement.name) == (
                member.name,
                next((str(c) for c in requirement.specifier if c.operator == "<"), ""),
            )
            allowed = {">=", "<"} if line in frameworks or capped else {">="}
            assert operators == allowed, f"{member.name}: {line}"


def test_every_member_is_taken_from_the_workspace() -> None:
    sources = workspace.root_settings()["tool"]["uv"]["sources"]
    assert sources == {name: {"workspace": True} for name in MEMBERS}


def test_versions_are_above_those_that_others_published_under_these_names() -> None:
    assert all(Version(member.version) >= Version("0.2.0") for member in MEMBERS.values())


def test_one_python_floor_for_all() -> None:
    floors = {member.project["requires-python"] for member in MEMBERS.values()}
    assert floors == {workspace.root_settings()["project"]["requires-python"]}


def test_environment_satisfies_every_bound(capfd: pytest.CaptureFixture[str]) -> None:
    code = uv.run("pip", "check", "--python", str(uv.VENV / "bin" / "python"))
    assert code == 0, capfd.readouterr().err


def test_every_extra_of_core_is_one_of_sandboxio_too() -> None:
    ours = MEMBERS["sandboxio-core"].project["optional-dependencies"]
    offered = MEMBERS["sandboxio"].project["optional-dependencies"]
    assert {name: offered.get(name) for name in ours} == {
        name: [f"sandboxio-core[{name}]>=0.2,<0.3"] for name in ours
    }
    assert set(dev.FRAMEWORKS) <= ours.keys()
