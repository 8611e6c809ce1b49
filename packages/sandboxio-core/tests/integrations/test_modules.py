"""The modules of integrations: short, one for each framework, and helpful without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dev
import sandboxio
from sandboxio import integrations

FOLDER = Path(integrations.__file__).parent
MODULES = {
    "crewai": "crewai",
    "deepagents": "deepagents",
    "langchain": "langchain_core",
    "langgraph": "langchain_core",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "smolagents": "smolagents",
}
"""Public modules, and what each imports of its framework."""

LONGEST = 100
"""Lines below which a module of a framework stays: what needs more belongs into core."""


def test_every_module_of_a_framework_is_short() -> None:
    paths = [path for path in FOLDER.rglob("*.py") if not path.name.startswith("_model_")]
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {name: lines for name, lines in lengths.items() if lines >= LONGEST} == {}


def test_every_framework_has_a_module_and_an_extra() -> None:
    public = {path.stem for path in FOLDER.glob("*.py") if not path.name.startswith("_")}
    assert public == set(MODULES)
    assert {name.replace("-", "_") for name in dev.FRAMEWORKS} == public - {"crewai", "langgraph"}


@pytest.mark.parametrize(("module", "framework"), MODULES.items())
def test_without_its_framework_a_module_says_how_to_install_it(module: str, framework: str) -> None:
    code = f"""
import sys
sys.modules[{framework!r}] = None
try:
    import sandboxio.integrations.{module}
except Exception as error:
    print(type(error).__name__, error.code, error.hint)
"""
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith(f"BackendNotInstalled {sandboxio.BackendNotInstalled.code} uv ")
    extra = {"langgraph": "langchain"}.get(module, module.replace("_", "-"))
    assert extra in answer.stdout.partition("uv pip install")[2]


def test_the_folder_itself_loads_no_framework() -> None:
    code = "import sys, sandboxio.integrations; print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert set(answer.stdout.split()) & {*MODULES.values(), "anyio", "pydantic"} == set()
