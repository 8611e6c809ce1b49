"""Releases: which version may follow, what stands in the way, and the whole way of one, rehearsed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import release
import release_build
import release_changelog
import release_downstream
import release_floors
import release_history
import release_plan
import release_rehearsal
import workspace

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.2.0"
dependencies = {dependencies}

[tool.hatch.build.targets.wheel]
packages = ["src/{package}"]
"""
SURFACE = "{package}.f: def (a: int) -> int\n"
ONE_DAY = {"GIT_AUTHOR_DATE": "2027-01-10T12:00:00Z", "GIT_COMMITTER_DATE": "2027-01-10T12:00:00Z"}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two wheels, of which `two` needs `one`; nothing has been released."""
    for name, value in ONE_DAY.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "checkout"
    for name, dependencies in {"one": [], "two": ["one>=0.2,<0.3", "anyio>=4.7"]}.items():
        folder = root / "packages" / name
        package = folder / "src" / f"{name}_package"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("def f(a: int) -> int: return a\n")
        (package / "py.typed").touch()
        (folder / "changes").mkdir()
        (folder / "changes" / ".gitkeep").touch()
        (folder / "CHANGELOG.md").write_text("# Changelog\n")
        (folder / "api.txt").write_text(SURFACE.format(package=package.name))
        (folder / "pyproject.toml").write_text(
            PROJECT.format(
                name=name, package=package.name, dependencies=str(dependencies).replace("'", '"')
            )
        )
    release_history.git(tmp_path, "init", "--quiet", str(root))
    release_history.commit_all(root, "first")
    return root


def tag(root: Path, *tags: str) -> None:
    for each in tags:
        release_history.git(root, "tag", each)


def change(root: Path, path: str, text: str) -> None:
    (root / "packages" / path).write_text(text)
    release_history.commit_all(root, f"change {path}")


def planned(root: Path, wheel: str) -> release_plan.Plan:
    return release_plan.plan(root, release_plan.member_of(root, wheel))


def refused(root: Path, wheel: str, version: str) -> list[str]:
    return release_plan.refusals(root, release_plan.member_of(root, wheel), version)


# --- which version comes next


def test_first_release_is_the_version_that_stands_there(checkout: Path) -> None:
    assert planned(checkout, "one").proposal == "0.2.0"
    assert refused(checkout, "one", "0.2.0") == []


@pytest.mark.parametrize(
    ("surface", "proposal"),
    [
        ("one_package.f: def (a: int) -> int\none_package.g: def () -> int\n", "0.2.1"),
        ("one_package.f: def (a: int, b: int = 0) -> int\n", "0.2.1"),
        ("one_package.f: def (b: int) -> int\n", "0.3.0"),
        ("", "0.3.0"),
    ],
)
def test_break_of_the_surface_needs_a_minor_version(
    checkout: Path, surface: str, proposal: str
) -> None:
    tag(checkout, "one==0.2.0")
    change(checkout, "one/api.txt", surface)
    assert planned(checkout, "one").proposal == proposal
    too_small = [line for line in refused(checkout, "one", "0.2.1") if "what it breaks" in line]
    assert bool(too_small) is (proposal == "0.3.0")


def test_removal_that_only_the_news_tells_of_is_a_break(checkout: Path) -> None:
    tag(checkout, "one==0.2.0")
    change(checkout, "one/changes/+dsn.removed.md", "The DSN parameter `x` is gone.")
    assert planned(checkout, "one").breaking
    assert refused(checkout, "one", "0.2.1") != []


def test_releases_of_other_wheels_are_no_releases_of_this_one(checkout: Path) -> None:
    tag(checkout, "two==0.9.0", "one-more==0.9.0", "one==not-a-version")
    assert release_history.releases(checkout, "one") == []


def test_versions_are_compared_as_versions(checkout: Path) -> None:
    tag(checkout, "one==0.2.10", "one==0.2.9")
    assert release_history.latest(checkout, "one") == "one==0.2.10"
    (reason,) = refused(checkout, "one", "0.2.8")
    assert "0.2.10 was released already" in reason


@pytest.mark.parametrize("version", ["0.2.0", "0.1.9", "0.2", "v0.3.0", "0.2.1+local", "latest"])
def test_version_that_cannot_follow_is_refused(checkout: Path, version: str) -> None:
    tag(checkout, "one==0.2.0")
    assert refused(checkout, "one", version) != []


def test_version_that_a_sibling_does_not_admit_is_refused(checkout: Path) -> None:
    (reason,) = refused(checkout, "one", "0.3.0")
    assert "two asks for one<0.3,>=0.2" in reason or "two asks for one>=0.2,<0.3" in reason
    assert refused(checkout, "one", "0.2.7") == []


def test_wheel_that_nobody_needs_moves_alone(checkout: Path) -> None:
    assert refused(checkout, "two", "0.3.0") == []


def test_version_that_was_announced_as_the_end_of_something_is_refused(checkout: Path) -> None:
    text = "`g` is deprecated since 0.2.0 and goes in 0.4.0: use `f`."
    change(checkout, "two/src/two_package/old.py", f'@deprecated("{text}")\ndef g(): ...\n')
    change(checkout, "two/changes/+g.deprecated.md", "`g` goes in 0.4.0: use `f`.")
    assert refused(checkout, "two", "0.3.0") == []
    assert any("0.4.0 has to do without `g`" in line for line in refused(checkout, "two", "0.4.0"))


def test_unknown_wheel_is_named_with_those_that_there_are(checkout: Path) -> None:
    with pytest.raises(SystemExit, match=r"no wheel three.*one, two"):
        release_plan.member_of(checkout, "three")


# --- what a tag needs


def released(root: Path, version: str = "0.2.0") -> None:
    change(root, "one/CHANGELOG.md", f"# Changelog\n\n## {version} (2027-01-10)\n\n- First.\n")


def test_tag_that_agrees_with_the_tree_is_ready(checkout: Path) -> None:
    released(checkout)
    assert release_rehearsal.ready(checkout, "one==0.2.0").name == "one"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("one==0.2.1", "the tag says 0.2.1"),
        ("two==0.2.0", "no section for 0.2.0"),
        ("v0.2.0", "no tag of a release"),
        ("three==0.2.0", "no wheel three"),
    ],
)
def test_tag_that_does_not_fit_is_refused(checkout: Path, name: str, reason: str) -> None:
    released(checkout)
    with pytest.raises(SystemExit, match=reason):
        release_rehearsal.ready(checkout, name)


def test_news_that_were_not_collected_hold_a_release_up(checkout: Path) -> None:
    released(checkout)
    change(checkout, "one/changes/+late.fixed.md", "Late.")
    with pytest.raises(SystemExit, match=r"\+late\.fixed\.md"):
        release_rehearsal.ready(checkout, "one==0.2.0")


def test_notes_are_the_section_of_one_version(checkout: Path) -> None:
    text = (
        "# Changelog\n\n## 0.2.1 (2027-02-01)\n\n- Second.\n\n## 0.2.0 (2027-01-10)\n\n- First.\n"
    )
    change(checkout, "one/CHANGELOG.md", text)
    member = release_plan.member_of(checkout, "one")
    assert release_changelog.notes(member, "0.2.1") == "- Second.\n"
    assert release_changelog.notes(member, "0.2.0") == "- First.\n"
    assert release_changelog.notes(member, "0.2") is None


# --- the files


def test_build_is_the_same_every_time_and_holds_what_is_committed(
    checkout: Path, tmp_path: Path
) -> None:
    first = release_build.build(checkout, "one", tmp_path / "first")
    (checkout / "packages/one/src/one_package/not_committed.py").touch()
    second = release_build.build(checkout, "one", tmp_path / "second")
    assert release_build.checksums(first) == release_build.checksums(second)
    assert [path.suffix for path in first] == [".whl", ".gz"]
    with zipfile.ZipFile(first[0]) as archive:
        assert "one_package/__init__.py" in archive.namelist()
        assert {info.date_time[:3] for info in archive.infolist()} == {(2027, 1, 10)}


def test_build_that_differs_is_an_error(checkout: Path, tmp_path: Path) -> None:
    hook = "import uuid\nfrom hatchling.metadata.plugin.interface import MetadataHookInterface\n"
    hook += "class Hook(MetadataHookInterface):\n"
    hook += "    def update(self, metadata): metadata['description'] = uuid.uuid4().hex\n"
    change(checkout, "one/hatch_build.py", hook)
    project = checkout / "packages/one/pyproject.toml"
    text = project.read_text().replace("dependencies", 'dynamic = ["description"]\ndependencies')
    change(checkout, "one/pyproject.toml", text + "[tool.hatch.metadata.hooks.custom]\n")
    with pytest.raises(release_build.NotReproducibleError, match=r"one-0\.2\.0"):
        release_build.build(checkout, "one", tmp_path / "out")


def test_siblings_are_built_from_the_oldest_release_that_is_admitted(
    checkout: Path, tmp_path: Path
) -> None:
    tag(checkout, "one==0.1.0", "one==0.2.0")
    project = checkout / "packages/one/pyproject.toml"
    change(checkout, "one/pyproject.toml", project.read_text().replace("0.2.0", "0.2.1"))
    tag(checkout, "one==0.2.1")
    said: list[str] = []
    two = release_plan.member_of(checkout, "two")
    (sibling,) = release_rehearsal.floors(checkout, two, tmp_path / "out", said.append)
    assert sibling.name.startswith("one-0.2.0-")
    assert said == ["with one 0.2.0"]


# --- floors


@pytest.mark.parametrize("member", workspace.members(), ids=lambda member: member.name)
def test_lowest_versions_are_those_of_the_wheel_and_of_what_its_tests_need(
    member: workspace.Member,
) -> None:
    own, rest = release_floors.lowest(workspace.ROOT, member)
    names = {Requirement(line).name for line in own}
    others = {Requirement(line).name for line in rest}
    assert names.isdisjoint(others)
    assert (names | others).isdisjoint({each.name for each in workspace.members()})
    assert {"pytest", "trio"} <= names | others
    if member.name != "sandboxio-core":
        assert {"anyio", "pluggy"} <= names | others


def test_floor_that_nothing_can_be_installed_at_is_a_guess() -> None:
    lines = ["pytest>=8.0", "anyio>=4.7,<5", "pyyaml>=6"]
    there = {"pytest": "8.2.0", "anyio": "4.7.0", "pyyaml": "6.0"}
    (problem,) = release_floors.untested(lines, there)
    assert "pytest>=8.0: what comes with it needs 8.2.0" in problem


# --- downstream


def test_before_the_first_release_there_is_nothing_downstream(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release_downstream, "CORE", "one")
    two = release_plan.member_of(checkout, "two")
    assert release_downstream.test(checkout, two, []) is None
    assert capsys.readouterr().out == "two: not released yet\n"


def test_release_that_does_not_admit_this_core_is_told_and_not_tested(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release_downstream, "CORE", "one")
    tag(checkout, "two==0.2.0")
    project = checkout / "packages/one/pyproject.toml"
    change(checkout, "one/pyproject.toml", project.read_text().replace("0.2.0", "0.3.0"))
    assert release_downstream.test(checkout, release_plan.member_of(checkout, "two"), []) == 0
    assert "two==0.2.0: does not admit core 0.3.0" in capsys.readouterr().out


# --- the command line


def test_help_tells_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        release.main(["--help"])
    told = capsys.readouterr().out
    assert all(verb in told for verb in ("plan", "bump", "build", "ready", "notes", "floors"))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_release_is_rehearsed_from_bump_to_installed_wheel(tmp_path: Path) -> None:
    """The wheel of the local backend: it has a sibling, a binary dependency, and a demonstration."""
    tags = release_history.git(workspace.ROOT, "tag", "--list")
    command = [sys.executable, str(workspace.ROOT / "tools" / "release.py")]
    done = subprocess.run(
        [*command, "dry-run", "sandboxio-local"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "demo --backend local://" in done.stdout
    assert done.stdout.rstrip().endswith("done")
    assert list(tmp_path.iterdir()) == []
    assert release_history.git(workspace.ROOT, "tag", "--list") == tags
