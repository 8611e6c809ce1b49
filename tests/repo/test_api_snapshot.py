"""The snapshot of the public surface: what it holds, and which differences break somebody."""

from __future__ import annotations

from pathlib import Path

import pytest

import api_snapshot
import api_snapshot_compare
import api_snapshot_read
import workspace
from sandboxio_testing.clauses import CLAUSES

PROJECT = """
[project]
name = "wheel"
version = "1.0"

[project.optional-dependencies]
fast = []

[project.scripts]
go = "wheel._main:main"

[project.entry-points.sandboxio]
wheel = "wheel._plugin"
"""
MODULES = {
    "py.typed": "",
    "__init__.py": """
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import shapes
    from ._private import Hidden, call
    from .shapes import Shape
__all__ = ["Hidden", "Shape", "call", "shapes"]
""",
    "_private.py": """
from dataclasses import dataclass
from .shapes import Shape

class _Base:
    def inherited(self, x: int) -> int: ...
    def _not_this(self) -> None: ...

class Hidden(_Base, Shape):
    code = "W1"
    hint = "wording"
    def __init__(self, name: str) -> None:
        self.name = name
        self._secret = name
    def __repr__(self) -> str: ...
    def area(self) -> float: ...
    @property
    def size(self) -> int: ...
    @classmethod
    async def make(cls, *, size: int = 3) -> "Hidden": ...

def call(a: int, /, b: str = "b", *, c: float) -> None: ...
def _not_this() -> None: ...
""",
    "shapes.py": """
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol
from typing_extensions import deprecated

__all__ = ["LIMIT", "Color", "Kind", "Point", "Shape", "old"]
LIMIT = 3
Kind = Literal["a", "b"]
other = 4

class Color(Enum):
    RED = "red"

@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0

class Shape(Protocol):
    def area(self) -> float: ...

@deprecated("use Point")
def old() -> None: ...
""",
    "_not/__init__.py": "__all__ = ['x']\nx = 1\n",
    "unsaid.py": "def nobody_promised() -> None: ...\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A workspace of one wheel."""
    folder = tmp_path / "packages" / "wheel"
    for name, text in MODULES.items():
        path = folder / "src" / "wheel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def test_surface_is_what_is_promised_and_nothing_else(checkout: Path) -> None:
    assert api_snapshot_read.Surfaces(checkout).lines("wheel") == [
        "[entry point] sandboxio wheel: entry point",
        "[extra] fast: extra",
        "[script] go: wheel._main:main",
        "wheel: module",
        "wheel.Hidden: class (Shape)",
        "wheel.Hidden.__init__: def (name: str) -> None",
        "wheel.Hidden.code: value = 'W1'",
        "wheel.Hidden.hint: value",
        "wheel.Hidden.inherited: def (x: int) -> int",
        "wheel.Hidden.make: classmethod async def (*, size: int = 3) -> Hidden",
        "wheel.Hidden.name: value",
        "wheel.Hidden.size: property -> int",
        "wheel.Shape: is wheel.shapes.Shape",
        "wheel.call: def (a: int, /, b: str = 'b', *, c: float) -> None",
        "wheel.shapes: module",
        "wheel.shapes.Color: class (Enum)",
        "wheel.shapes.Color.RED: value = 'red'",
        "wheel.shapes.Kind: value = Literal['a', 'b']",
        "wheel.shapes.LIMIT: value = 3",
        "wheel.shapes.Point: class",
        "wheel.shapes.Point.__init__: def (x: int, y: int = 0) -> None",
        "wheel.shapes.Point.x: value int",
        "wheel.shapes.Point.y: value int",
        "wheel.shapes.Shape: class (Protocol)",
        "wheel.shapes.Shape.area: def () -> float",
        "wheel.shapes.old: def () -> None [deprecated]",
    ]


def test_moving_what_is_private_changes_nothing(checkout: Path) -> None:
    before = api_snapshot_read.Surfaces(checkout).lines("wheel")
    package = checkout / "packages/wheel/src/wheel"
    (package / "_private.py").rename(package / "_elsewhere.py")
    init = package / "__init__.py"
    init.write_text(init.read_text().replace("._private", "._elsewhere"))
    assert api_snapshot_read.Surfaces(checkout).lines("wheel") == before


def test_name_that_is_promised_and_not_there_is_an_error(checkout: Path) -> None:
    shapes = checkout / "packages/wheel/src/wheel/shapes.py"
    shapes.write_text(shapes.read_text().replace('"Color",', '"Color", "Colour",'))
    with pytest.raises(ValueError, match="Colour"):
        api_snapshot_read.Surfaces(checkout)


def test_snapshot_reads_back_as_it_was_written(checkout: Path) -> None:
    lines = api_snapshot_read.Surfaces(checkout).lines("wheel")
    parsed = api_snapshot_compare.parse(api_snapshot.render("wheel", lines))
    assert [f"{name}: {text}" for name, text in parsed.items()] == lines


OLD = "def (a: int, b: str | None = None, *, c: float = 1.0) -> int | None"

HARMLESS = {
    "nothing but a deprecation": (OLD, OLD + " [deprecated]"),
    "new optional parameter": (OLD, OLD.replace("*,", "*, d: int = 0,")),
    "keyword-only becomes positional": (OLD, OLD.replace("*, ", "")),
    "parameter takes more": (OLD, OLD.replace("str | None", "str | bytes | None")),
    "result is narrower": (OLD, OLD.replace("int | None", "int")),
    "required becomes optional": (OLD, OLD.replace("a: int", "a: int = 0")),
    "positional-only becomes usual": ("def (a: int, /) -> int", "def (a: int) -> int"),
    "property becomes writable": ("property -> int", "writable property -> int"),
    "another base": ("class (A)", "class (A, B)"),
}
BREAKING = {
    "parameter is gone": (OLD, OLD.replace("b: str | None = None, ", "")),
    "parameter has another name": (OLD, OLD.replace("b: ", "bb: ")),
    "new required parameter": (OLD, OLD.replace("*,", "*, d: int,")),
    "order": ("def (a: int, b: int) -> int", "def (b: int, a: int) -> int"),
    "new optional parameter before an old one": (
        "def (a: int = 0) -> int",
        "def (z: int = 0, a: int = 0) -> int",
    ),
    "positional becomes keyword-only": (
        OLD,
        OLD.replace("a: int, b", "a: int, *, b").replace(", *, c", ", c"),
    ),
    "usual becomes positional-only": ("def (a: int) -> int", "def (a: int, /) -> int"),
    "parameter takes less": (OLD, OLD.replace("str | None", "str")),
    "default is lost": (OLD, OLD.replace(" = None", "")),
    "default is another": (OLD, OLD.replace("1.0", "2.0")),
    "result is wider": (OLD, OLD.replace("int | None", "int | str | None")),
    "becomes a coroutine": (OLD, f"async {OLD}"),
    "rest of the arguments is gone": ("def (*a: int) -> int", "def () -> int"),
    "another value": ("value = 'SBX_E1'", "value = 'SBX_E2'"),
    "another type": ("value int", "value str"),
    "base is gone": ("class (A, B)", "class (A)"),
    "class becomes a function": ("class", "def () -> int"),
    "property is no longer writable": ("writable property -> int", "property -> int"),
    "overload is gone": (f"{OLD} // {OLD}", OLD),
}


@pytest.mark.parametrize(("old", "new"), HARMLESS.values(), ids=HARMLESS)
def test_change_that_breaks_nobody(old: str, new: str) -> None:
    (change,) = api_snapshot_compare.compare({"m.f": old}, {"m.f": new})
    assert not change.breaking, change.text


@pytest.mark.parametrize(("old", "new"), BREAKING.values(), ids=BREAKING)
def test_change_that_breaks_callers(old: str, new: str) -> None:
    (change,) = api_snapshot_compare.compare({"m.f": old}, {"m.f": new})
    assert change.breaking, change.text


@pytest.mark.parametrize(
    ("before", "after", "breaking"),
    [
        ({}, {"m.f": OLD}, False),
        ({"m.f": OLD}, {}, True),
        ({"m.C": "class"}, {"m.C": "class", "m.C.f": OLD}, False),
        # Every adapter must grow it.
        ({"m.P": "class (Protocol)"}, {"m.P": "class (Protocol)", "m.P.f": OLD}, True),
        # An adapter that passed can fail; a SHOULD may be a known gap.
        ({}, {"[clause] a.b": "MUST"}, True),
        ({}, {"[clause] a.b": "SHOULD"}, False),
        ({"[clause] a.b": "SHOULD"}, {"[clause] a.b": "MUST"}, True),
        ({"[clause] a.b": "MUST"}, {}, True),
        ({"m.S": "class"}, {"m.S": "class", "m.S.test_x": "test"}, False),
        # A protocol that is new has no implementations yet.
        ({}, {"m.P": "class (Protocol)", "m.P.f": OLD}, False),
        ({"m.C": "class (Enum)"}, {"m.C": "class (Enum)", "m.C.NEW": "value = 'new'"}, False),
    ],
)
def test_names_that_come_and_go(
    before: dict[str, str], after: dict[str, str], *, breaking: bool
) -> None:
    changes = api_snapshot_compare.compare(before, after)
    assert any(change.breaking for change in changes) is breaking


def test_more_for_callers_of_a_protocol_is_a_break_for_those_who_implement_it() -> None:
    before = {"m.P": "class (Protocol)", "m.P.f": OLD}
    after = {**before, "m.P.f": OLD.replace("*,", "*, d: int = 0,")}
    (change,) = api_snapshot_compare.compare(before, after)
    assert change.breaking


def test_clauses_of_the_contract_are_part_of_the_surface() -> None:
    lines = api_snapshot_read.Surfaces().lines("sandboxio-testing")
    found = {line for line in lines if line.startswith("[clause]")}
    assert found == {f"[clause] {clause.id}: {clause.level.value}" for clause in CLAUSES.values()}


def test_report_tells_breaks_first() -> None:
    changes = api_snapshot_compare.compare({"m.z": OLD}, {"m.a": OLD})
    lines = api_snapshot.report("wheel", changes).splitlines()
    assert [line.split()[:2] for line in lines[1::2]] == [["BREAKS", "m.z"], ["adds", "m.a"]]


@pytest.mark.parametrize("member", workspace.members(), ids=lambda member: member.name)
def test_every_wheel_has_a_snapshot(member: workspace.Member) -> None:
    assert api_snapshot.path_of(member).is_file()
