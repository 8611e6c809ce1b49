"""Where things are, and what must not be anywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import workspace

ROOT = workspace.ROOT
MEMBERS = workspace.members()


def files_of_the_repository() -> list[Path]:
    """Every file that is committed or would be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip(f"git cannot list this checkout: {listed.stderr.strip()}")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_tests_folder_is_a_package() -> None:
    """Two of them make pytest run one package's tests twice and the other's never, all green."""
    found = [
        path
        for path in files_of_the_repository()
        if path.name == "__init__.py"
        and {"tests", "tests-contract"} & set(path.relative_to(ROOT).parts)
    ]
    assert found == []


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_wheel_has_what_every_wheel_has(member: workspace.Member) -> None:
    for name in ("README.md", "CHANGELOG.md", "LICENSE", "changes/.gitkeep"):
        assert (member.folder / name).is_file(), name
    assert (member.folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert len((member.folder / "pyproject.toml").read_text().splitlines()) <= 60
    assert member.folder.name == member.name


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_members_carry_no_tool_configuration(member: workspace.Member) -> None:
    tools = workspace.root_settings(member.folder).get("tool", {})
    assert tools.keys() == {"hatch"}, "tool configuration lives in the root pyproject.toml"


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_news_fragments_have_names_that_towncrier_reads(member: workspace.Member) -> None:
    types = {kind["directory"] for kind in workspace.root_settings()["tool"]["towncrier"]["type"]}
    for path in (member.folder / "changes").iterdir():
        if path.name == ".gitkeep":
            continue
        match = re.fullmatch(r"\+[a-z0-9-]+\.(\w+)\.md", path.name)
        assert match, f"{path.name} is not `+<slug>.<type>.md`"
        assert match[1] in types, f"{path.name}: the types are {', '.join(sorted(types))}"


def test_no_module_is_called_utils() -> None:
    banned = {"utils", "util", "common", "helpers", "misc"}
    found = [path for path in files_of_the_repository() if path.stem in banned]
    assert found == [], "a module's name says what it is for"


def test_no_file_names_a_package_index() -> None:
    """Machines differ in where packages come from, and a name in a file would decide for them."""
    # Written in parts, or this file would be the first to be found.
    hosts = [
        ".".join(parts)
        for parts in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("npmjs", "org"),
            ("deb", "debian", "org"),
            ("archive", "ubuntu", "com"),
        )
    ]
    assert found_in_files(hosts) == []


E2B_HOME = b"/home" + b"/user"
"""The home directory in every sandbox of E2B, which its adapter has to name."""


def test_no_file_holds_a_path_of_one_machine() -> None:
    here = [str(path) for path in (ROOT, Path(sys.base_prefix)) if len(path.parts) > 2]
    homes = ["/" + "home/", "/" + "Users/", "/root/" + "."]
    assert found_in_files([*here, *homes]) == []


def found_in_files(words: list[str]) -> list[str]:
    """`file: word` for each word that a file of the repository holds."""
    return [
        f"{path.relative_to(ROOT)}: {word}"
        for path in files_of_the_repository()
        for word in words
        if word.encode() in path.read_bytes().replace(E2B_HOME, b"")
    ]


def test_the_layers_that_are_described_are_those_that_are_enforced() -> None:
    contract = next(
        contract
        for contract in workspace.root_settings()["tool"]["importlinter"]["contracts"]
        if contract["id"] == "core"
    )
    enforced = [re.findall(r"\w+", layer) for layer in contract["layers"]]
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    described = text.partition("from top to bottom")[2].partition("\n\n")[2].partition("\n\n")[0]
    assert [re.findall(r"`(\w+)`", layer) for layer in described.split("·")] == enforced
