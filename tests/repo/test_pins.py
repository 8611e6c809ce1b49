"""The committed versions and the lock that every checkout makes from them."""

from __future__ import annotations

import pytest

import dev
import pins
import workspace

LOCK = """\
version = 1

[[package]]
name = "wheel-of-ours"
version = "0.2.0"
source = { editable = "packages/wheel-of-ours" }

[[package]]
name = "zipp"
version = "3.21.0"
source = { registry = "https://index.example/simple" }

[[package]]
name = "numpy"
version = "2.2.6"
source = { registry = "https://index.example/simple" }
resolution-markers = ["python_full_version < '3.11'", "sys_platform == 'win32'"]

[[package]]
name = "numpy"
version = "2.4.0"
source = { registry = "https://index.example/simple" }
resolution-markers = ["python_full_version >= '3.11'"]
"""
PROJECT = """\
[tool.uv]
package = false
# <pins>
constraint-dependencies = [
  "zipp==1.0",
]
# </pins>

[tool.other]
kept = true
"""


def test_pins_are_sorted_and_hold_forks_and_no_member() -> None:
    assert pins.pins_of_lock(LOCK) == [
        "numpy==2.2.6 ; (python_full_version < '3.11') or (sys_platform == 'win32')",
        "numpy==2.4.0 ; python_full_version >= '3.11'",
        "zipp==3.21.0",
    ]


def test_pins_hold_no_address() -> None:
    assert not any("example" in pin for pin in pins.pins_of_lock(LOCK))


def test_written_pins_are_read_back_and_nothing_else_changes() -> None:
    wanted = pins.pins_of_lock(LOCK)
    written = pins.with_pins(PROJECT, wanted)
    assert pins.pins_of_project(written) == wanted
    assert pins.with_pins(written, ["zipp==1.0"]) == PROJECT


def test_difference_names_what_moved() -> None:
    assert "-zipp==1.0" in pins.difference(PROJECT, LOCK)
    assert pins.difference(pins.with_pins(PROJECT, pins.pins_of_lock(LOCK)), LOCK) == ""


def test_lost_marks_are_explained() -> None:
    with pytest.raises(pins.PinsError, match="lost its marks"):
        pins.with_pins("[tool.uv]\n", [])


def test_the_lock_of_this_checkout_has_the_committed_versions() -> None:
    project = (workspace.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert pins.difference(project, pins.read_lock()) == ""


@pytest.mark.parametrize(
    ("arguments", "moved"),
    [([], set()), (["-P", "anyio"], {"anyio"}), (["--upgrade-package", "trio"], {"trio"})],
    ids=["none", "-P", "--upgrade-package"],
)
def test_only_what_is_upgraded_loses_its_pin(arguments: list[str], moved: set[str]) -> None:
    project = (workspace.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    everything = pins.pins_of_project(project)
    kept = dev.kept_pins(arguments)
    assert {pin.partition("==")[0] for pin in everything if pin not in kept} == moved


def test_upgrade_of_everything_keeps_no_pin() -> None:
    assert dev.kept_pins(["--upgrade"]) == []
