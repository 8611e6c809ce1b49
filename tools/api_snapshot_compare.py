"""Tell a break of the public surface from an addition to it, given the lines before and after.

The rules are those of the version policy, and the stricter audience decides: a new method of a
protocol is no change for who calls it, and a break for who implements it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final

TEST: Final = "test"
"""The description of a test of the contract suite: what it may ask for, its clause says."""

CLAUSE: Final = "[clause]"
"""What the name of a clause of the contract begins with; its description is MUST or SHOULD."""

POSITIONAL: Final = "positional"
KEYWORD: Final = "keyword"


@dataclass(frozen=True)
class Change:
    """One difference of the surface."""

    name: str
    """The public name."""
    text: str
    """What happened to it, for a reader."""
    breaking: bool
    """Whether somebody's program can stop working, or stop passing its type checker."""


def parse(text: str) -> dict[str, str]:
    """Return name -> description for the text of a snapshot; comments and blank lines are left out."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: rest for name, _, rest in (line.partition(": ") for line in lines)}


def compare(before: dict[str, str], after: dict[str, str]) -> list[Change]:
    """Return every difference, sorted by name."""
    changes: list[Change] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if new is None:
            changes.append(Change(name, f"removed: {old}", True))
        elif old is None:
            changes.append(_added(name, new, before))
        else:
            reason = _break(name, old, new, before)
            changes.append(
                Change(name, f"{old}  =>  {new}{f'  ({reason})' if reason else ''}", bool(reason))
            )
    return changes


def _added(name: str, new: str, before: dict[str, str]) -> Change:
    owner = name.rpartition(".")[0]
    if name.startswith(CLAUSE) and new == "MUST":
        return Change(
            name, "added: MUST  (it has to be a SHOULD in one minor version before)", True
        )
    if _is_protocol(before.get(owner, "")):
        return Change(name, f"added: {new}  (every implementation must grow it)", True)
    return Change(name, f"added: {new}", False)


def _is_protocol(description: str) -> bool:
    return description.startswith("class") and "Protocol" in description


def _break(name: str, old: str, new: str, before: dict[str, str]) -> str:
    """Return why a change of a description breaks somebody; empty when it breaks nobody."""
    plain_old, plain_new = (text.removesuffix(" [deprecated]") for text in (old, new))
    if plain_old == plain_new:
        return ""  # being deprecated, or no longer, changes nothing for those who call it
    if _is_protocol(before.get(name.rpartition(".")[0], "")):
        return "every implementation has the old one"
    if plain_old.startswith("class") and plain_new.startswith("class"):
        lost = _bases(plain_old) - _bases(plain_new)
        return f"no longer a {', '.join(sorted(lost))}" if lost else ""
    if "def (" in plain_old and "def (" in plain_new:
        if " // " in plain_old or " // " in plain_new:
            return "overloads differ"
        return _signatures(plain_old, plain_new)
    if plain_old.startswith("property -> ") and plain_new.startswith("writable property -> "):
        old_type, new_type = plain_old.partition("-> ")[2], plain_new.partition("-> ")[2]
        return "" if old_type == new_type else "another type"
    return "another kind, type or value"


def _bases(description: str) -> set[str]:
    inside = description.partition("(")[2].removesuffix(")")
    return {base.strip() for base in inside.split(",") if base.strip()}


# --- signatures ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Parameter:
    kinds: frozenset[str]
    place: int | None
    annotation: str
    required: bool


def _signatures(old: str, new: str) -> str:
    """Return why calls of the old signature break with the new one."""
    old_words, new_words = old.partition("def ")[0], new.partition("def ")[0]
    if old_words != new_words:
        return "awaited or bound differently"
    then, now = _function(old), _function(new)
    before, after = _parameters(then.args), _parameters(now.args)
    for name, parameter in before.items():
        other = after.get(name)
        if other is None:
            return f"`{name}` is gone"
        if not parameter.kinds <= other.kinds or parameter.place not in (None, other.place):
            return f"`{name}` is passed differently"
        if other.required and not parameter.required:
            return f"`{name}` has lost its default"
        if not _union(parameter.annotation) <= _union(other.annotation):
            return f"`{name}` no longer takes {parameter.annotation}"
        if _default(then.args, name) != _default(now.args, name) and not parameter.required:
            return f"`{name}` has another default"
    for name in sorted(after.keys() - before.keys()):
        if after[name].required:
            return f"`{name}` is new and required"
    if not _union(_text(now.returns)) <= _union(_text(then.returns)):
        return f"returns {_text(now.returns)}"
    return ""


def _function(description: str) -> ast.FunctionDef:
    plain = description.partition("def ")[2]
    node = ast.parse(f"def f{plain}: ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def _parameters(arguments: ast.arguments) -> dict[str, _Parameter]:
    """Return the parameters by name, `*` and `**` with their stars."""
    found: dict[str, _Parameter] = {}
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    for place, argument in enumerate(positional):
        only = argument in arguments.posonlyargs
        kinds = frozenset({POSITIONAL} if only else {POSITIONAL, KEYWORD})
        found[argument.arg] = _Parameter(kinds, place, _text(argument.annotation), place < required)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found[argument.arg] = _Parameter(
            frozenset({KEYWORD}), None, _text(argument.annotation), default is None
        )
    for stars, rest in (("*", arguments.vararg), ("**", arguments.kwarg)):
        if rest is not None:
            found[stars + rest.arg] = _Parameter(frozenset(), None, _text(rest.annotation), False)
    return found


def _default(arguments: ast.arguments, name: str) -> str:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    pairs += [
        (argument, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    ]
    return next((ast.unparse(default) for argument, default in pairs if argument.arg == name), "")


def _text(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""


def _union(annotation: str) -> set[str]:
    """Return the alternatives of a type; what says nothing is one alternative itself."""
    node = ast.parse(annotation or "_", mode="eval").body
    alternatives: set[str] = set()
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        alternatives.add(ast.unparse(node.right))
        node = node.left
    return alternatives | {ast.unparse(node)}
