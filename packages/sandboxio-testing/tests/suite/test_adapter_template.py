"""The adapter template as a third party has it: built, installed outside, and held to the contract."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pins
import uv
import workspace

pytestmark = [
    pytest.mark.slow,
    # The whole contract on two event loops, in an environment of its own.
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="the template is made of Linux namespaces"),
]

TEMPLATE = workspace.ROOT / "docs" / "adapter-template"

BROKEN_PROJECT = """
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "sandboxio-broken"
version = "0.1.0"
dependencies = ["sandboxio-core>=0.2,<0.3"]

[project.entry-points.sandboxio]
broken = "sandboxio_broken._plugin"

[tool.hatch.build.targets.wheel]
packages = ["sandboxio_broken"]
"""

RUN = """
import sys, anyio, sandboxio
async def main():
    async with await sandboxio.create("template://", timeout=60) as sandbox:
        print((await sandbox.run(["echo", "hello"])).stdout, end="")
    try:
        await sandboxio.create("broken://")
    except sandboxio.BackendNotFound as error:
        print("broken:", type(error.__cause__).__name__)
anyio.run(main)
"""

Outside = Callable[..., subprocess.CompletedProcess[str]]


def build(project: Path, out: Path) -> None:
    """Build a wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", out]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    """Run Python in an environment with core, the suite, the template and a broken plugin."""
    home = tmp_path_factory.mktemp("outside")
    wheels = home / "wheels"
    broken = home / "broken"
    (broken / "sandboxio_broken").mkdir(parents=True)
    (broken / "pyproject.toml").write_text(BROKEN_PROJECT)
    (broken / "sandboxio_broken" / "__init__.py").write_text("")
    (broken / "sandboxio_broken" / "_plugin.py").write_text("raise OSError('cannot be imported')\n")
    packages = workspace.ROOT / "packages"
    for project in (packages / "sandboxio-core", packages / "sandboxio-testing", TEMPLATE, broken):
        build(project, wheels)
    constraints = home / "constraints.txt"
    project_file = (workspace.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    constraints.write_text("\n".join(pins.pins_of_project(project_file)), encoding="utf-8")
    python = home / "venv" / "bin" / "python"
    files = [str(path) for path in sorted(wheels.iterdir())]
    install = ("pip", "install", "--python", str(python), "--constraint", str(constraints))
    for arguments in (
        ("venv", "--python", sys.executable, str(python.parent.parent)),
        (*install, *files, "pytest", "trio"),
    ):
        done = subprocess.run(
            [str(uv.bring()), "--quiet", "--no-config", *arguments],
            cwd=home,
            env=uv.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    tests = home / "tests"
    tests.mkdir()
    for path in (TEMPLATE / "tests").glob("*.py"):
        (tests / path.name).write_bytes(path.read_bytes())

    # The template keeps the folder of its sandboxes' state; here it goes with the test's own.
    state = home / "state"
    state.mkdir()
    env = {**os.environ, "XDG_RUNTIME_DIR": str(state)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *arguments], cwd=home, env=env, capture_output=True, text=True, check=False
        )

    return run


def test_template_works_by_its_name_and_a_broken_plugin_harms_only_its_own(
    outside: Outside,
) -> None:
    done = outside("-I", "-W", "ignore", "-c", RUN)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hello\nbroken: OSError\n"


def test_doctor_lists_the_template_and_a_broken_plugin_by_its_own_name(outside: Outside) -> None:
    done = outside("-I", "-W", "error", "-m", "sandboxio._cli", "doctor", "--timeout=60", "--json")
    assert done.returncode == 1, "a plugin is broken"
    assert done.stderr == ""
    found = {backend["name"]: backend for backend in json.loads(done.stdout)["backends"]}
    template, broken = found["template"], found["broken"]
    assert (template["installed"], template["ok"]) == (True, True), template["checks"]
    assert template["isolation"]["tier"] == "unknown"
    assert template["versions"]["sandboxio-template"] == "0.1.0"
    assert "memory" in template["checks"][0]["detail"]
    assert (broken["installed"], broken["ok"]) == (True, False)
    assert broken["versions"] == {"sandboxio-broken": "0.1.0"}
    (check,) = broken["checks"]
    assert (check["name"], check["status"]) == ("plugin", "failed")
    assert "cannot be imported" in check["detail"]
    assert check["hint"] == "Reinstall or remove sandboxio-broken."
    assert [found[name]["installed"] for name in ("docker", "e2b", "local")] == [False] * 3
    assert found["docker"]["install"] == 'uv pip install "sandboxio[docker]"'


def test_template_keeps_the_contract(outside: Outside, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = outside("-m", "pytest", "-q", "tests", f"--sandboxio-report={report}")
    assert done.returncode == 0, done.stdout[-5000:]
    (backend,) = json.loads(report.read_text())["backends"]
    outcomes = {clause: item["outcome"] for clause, item in backend["clauses"].items()}
    assert backend["backend"] == "template"
    assert [clause for clause, outcome in outcomes.items() if outcome == "known gap"] == [
        "caps.by-default"
    ]
    assert "not run" not in outcomes.values()
    assert list(outcomes.values()).count("passed") > 200
