"""What GitHub runs: pinned, bounded, with the least rights, and by verbs that there are.

`check` runs zizmor over the same files; this holds what it does not look for.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import dev
import release
import workspace

FOLDER = workspace.ROOT / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").glob("*.yml"))
FILES = [*WORKFLOWS, *sorted(FOLDER.glob("actions/*/action.yml"))]
JOBS = [
    pytest.param(path.stem, name, job, id=f"{path.stem}-{name}")
    for path in WORKFLOWS
    for name, job in yaml.safe_load(path.read_text())["jobs"].items()
]
# Jobs with more than the right to read, and all that they have.
RIGHTS: dict[str, dict[str, str]] = {
    "release-publish": {"id-token": "write"},
    "release-provenance": {"id-token": "write", "attestations": "write"},
    "release-notes": {"contents": "write"},
    "canary-report": {"issues": "write"},
    "security-codeql": {"contents": "read", "security-events": "write"},
}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_gives_no_rights_but_to_jobs(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {}


@pytest.mark.parametrize(("workflow", "name", "job"), JOBS)
def test_job_has_the_rights_that_it_needs(workflow: str, name: str, job: dict[str, Any]) -> None:
    assert job["permissions"] == RIGHTS.get(f"{workflow}-{name}", {"contents": "read"})


@pytest.mark.parametrize(("workflow", "name", "job"), JOBS)
def test_job_ends(workflow: str, name: str, job: dict[str, Any]) -> None:
    if "uses" not in job:
        assert 0 < job["timeout-minutes"] <= 45


def test_who_has_rights_runs_nothing_of_the_repository() -> None:
    """What could publish neither checks out nor runs a script of ours."""
    jobs = yaml.safe_load((FOLDER / "workflows" / "release.yml").read_text())["jobs"]
    for name in ("publish", "provenance", "notes"):
        steps = jobs[name]["steps"]
        assert not any("checkout" in step.get("uses", "") for step in steps), name
        assert not any("tools/" in step.get("run", "") for step in steps), name
    assert jobs["publish"]["environment"] == "pypi"
    assert {"ci", "build"} <= set(jobs["publish"]["needs"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_action_is_pinned_to_a_commit_and_says_its_version(path: Path) -> None:
    for line in path.read_text().splitlines():
        if (found := re.match(r"\s*(?:- )?uses: (.*)", line)) and not found[1].startswith("./"):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", found[1]), line


def test_one_action_has_one_version() -> None:
    pins: dict[str, set[str]] = {}
    for path in FILES:
        for action, pin in re.findall(r"uses: ([\w-]+/[\w-]+)[\w/-]*@(.*)", path.read_text()):
            pins.setdefault(action, set()).add(pin)
    assert {action: found for action, found in pins.items() if len(found) > 1} == {}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_verbs_that_are_run_are_there(path: Path) -> None:
    text = path.read_text()
    assert set(re.findall(r"python3 tools/dev\.py (\w+)", text)) <= dev.VERBS.keys()
    told = release.parser().format_help()
    for verb in re.findall(r"tools/release\.py ([\w-]+)", text):
        assert re.search(rf"(?m)^    {verb}\s", told), verb
    for script in re.findall(r"python3 (tools/\w+\.py)", text):
        assert (workspace.ROOT / script).is_file()
    for name in re.findall(r"(?:packages|tests|tests-contract)/[\w./-]+", text):
        assert (workspace.ROOT / name).exists(), name


def test_tag_of_every_wheel_starts_a_release_and_nothing_else_does() -> None:
    # `on` is a boolean in YAML.
    patterns = yaml.safe_load((FOLDER / "workflows" / "release.yml").read_text())[True]["push"]
    globs = [re.escape(each).replace(r"\*", "[^/]*") for each in patterns["tags"]]
    tags = [f"{member.name}==0.2.0" for member in workspace.members()]
    assert all(any(re.fullmatch(glob, tag) for glob in globs) for tag in tags)
    assert not any(re.fullmatch(glob, "v0.2.0") for glob in globs)


def test_every_backend_has_its_own_job_for_the_contract() -> None:
    jobs = yaml.safe_load((FOLDER / "workflows" / "ci.yml").read_text())["jobs"]
    called = {job["with"]["backend"] for job in jobs.values() if "contract" in job.get("uses", "")}
    folder = workspace.ROOT / "tests-contract"
    assert called == {path.stem.removeprefix("test_") for path in folder.glob("test_*.py")}


def test_every_python_that_is_promised_is_tested() -> None:
    jobs = yaml.safe_load((FOLDER / "workflows" / "ci.yml").read_text())["jobs"]
    versions = jobs["unit"]["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    floor = workspace.root_settings()["project"]["requires-python"]
    assert floor == f">={versions[0]}"
