"""Each hook that a wheel may implement is documented, has a group of its own, and is tested."""

from __future__ import annotations

import inspect
from pathlib import Path

import pluggy
import pytest

from sandboxio._wiring import hookspecs

GROUPS = {
    "sandboxio_backend": hookspecs.BACKENDS,
    "sandboxio_command": hookspecs.COMMANDS,
}

TESTS = Path(__file__).parent.parent


def specified() -> list[str]:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    return [
        name
        for name in vars(hookspecs.Hooks)
        if manager.parse_hookspec_opts(hookspecs.Hooks, name) is not None
    ]


def test_every_hook_has_a_group_of_its_own() -> None:
    assert sorted(specified()) == sorted(GROUPS)
    assert len(set(GROUPS.values())) == len(GROUPS)


@pytest.mark.parametrize("name", specified())
def test_hook_says_what_it_returns_and_when_it_is_called(name: str) -> None:
    doc = inspect.getdoc(getattr(hookspecs.Hooks, name)) or ""
    assert doc.partition("\n")[0].endswith(".")
    assert "Called when" in doc


@pytest.mark.parametrize("name", specified())
def test_hook_is_implemented_by_a_test(name: str) -> None:
    implementation = f"def {name}("
    found = [path.name for path in TESTS.rglob("test_*.py") if implementation in path.read_text()]
    assert found
