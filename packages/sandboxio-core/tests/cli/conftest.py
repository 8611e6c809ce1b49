"""Wheels that exist in name only, and what the command line makes of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandboxio._api import doctor as doctoring
from sandboxio._cli import main
from sandboxio._wiring.registry import default_registry

Install = Callable[..., str]


@pytest.fixture(autouse=True)
def _registry_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers, and what it loads under a name, is no other test's."""
    for name in ("_registered", "_plugins", "_backends", "_loading", "_making"):
        monkeypatch.setattr(default_registry(), name, {})


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Returns a function that installs a wheel: its metadata, and one module."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def make(wheel: str, group: str, name: str, source: str, requires: str = "") -> str:
        module = wheel.replace("-", "_")
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        needs = f"Requires-Dist: {requires}\n" if requires else ""
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {wheel}\nVersion: 1.0\n{needs}"
        )
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")
        (site / f"{module}.py").write_text(source)
        monkeypatch.delitem(sys.modules, module, raising=False)
        return module

    return make


@pytest.fixture(autouse=True)
def _as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is about how fast a busy machine is; those about the bound set their own."""
    monkeypatch.setattr(doctoring, "DOCTOR_BOUND", 30.0)
    defaults = {**(doctoring.doctor.__kwdefaults__ or {}), "timeout": 30.0}
    monkeypatch.setattr(doctoring.doctor, "__kwdefaults__", defaults)


@dataclass(frozen=True)
class Shown:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    """Returns a function that runs ``sandboxio`` in this process."""

    def run(*words: str) -> Shown:
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        shown = capsys.readouterr()
        return Shown(code, shown.out, shown.err)

    return run
