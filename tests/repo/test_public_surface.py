"""`import sandboxio`: one list of names, told in four ways, that all have to agree.

`_LAZY` and `_MODULES` are what runs, `__all__` is what is promised, the imports under `TYPE_CHECKING`
are what type checkers and editors see, and `dir()` is what a person at a prompt sees.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sandboxio

PROMISED: list[str] = vars(sandboxio).get("__all__", [])
# Names and the modules that hold them, then the modules that are public by themselves.
TABLE: dict[str, str] = {
    **vars(sandboxio).get("_LAZY", {}),
    **{name: f".{name}" for name in vars(sandboxio).get("_MODULES", ())},
}


def imports_for_type_checkers() -> dict[str, str]:
    """Name → module, for what `__init__.py` imports under `if TYPE_CHECKING:`."""
    source = Path(str(sandboxio.__file__)).read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for block in ast.parse(source).body:
        if not (isinstance(block, ast.If) and ast.unparse(block.test).endswith("TYPE_CHECKING")):
            continue
        for node in ast.walk(block):
            if isinstance(node, ast.ImportFrom):
                relative = "." * node.level + (node.module or "")
                for alias in node.names:
                    found[alias.asname or alias.name] = absolute(relative, alias.name)
    return found


def absolute(module: str, name: str = "") -> str:
    """The absolute name of the module that `from <module> import <name>` takes something from."""
    if module == ".":
        return f"sandboxio.{name}"  # `from . import errors`: the name is the module
    return f"sandboxio{module}" if module.startswith(".") else module


def test_there_is_a_table() -> None:
    assert TABLE, "sandboxio has no `_LAZY` table"
    assert PROMISED, "sandboxio has no `__all__`"


def test_all_names_nothing_twice() -> None:
    assert len(set(PROMISED)) == len(PROMISED)


@pytest.mark.parametrize("name", PROMISED)
def test_promised_name_resolves(name: str) -> None:
    assert getattr(sandboxio, name) is not None


def test_all_is_the_table_and_what_is_there_at_once() -> None:
    eager = set(PROMISED) - TABLE.keys()
    assert eager <= vars(sandboxio).keys()
    assert TABLE.keys() <= set(PROMISED)


def test_type_checkers_see_what_runs() -> None:
    seen = imports_for_type_checkers()
    assert seen.keys() == TABLE.keys()
    assert seen == {name: absolute(module) for name, module in TABLE.items()}


def test_dir_shows_what_is_promised() -> None:
    assert set(PROMISED) <= set(dir(sandboxio))


def test_unknown_name_is_an_attribute_error_that_says_it() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(sandboxio, "no_such_" + "name")
