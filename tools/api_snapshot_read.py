"""Read the public surface of a wheel from its source, without importing it, as lines to compare.

Public is what `__all__` names in a module whose path has no underscore, with the public members of
each class, and what the wheel's `pyproject.toml` offers: extras, scripts and entry points. Where an
object lives privately is nobody's business, so it is described under the name that is promised.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import griffe

import workspace
from api_snapshot_compare import CLAUSE, TEST

# It is reached through `sandboxio.spi` alone, although its modules have names without underscores.
INTERNAL: Final = ("sandboxio.guest",)

# Methods of every object: having an own one is no promise.
UNPROMISED: Final = frozenset(
    {
        "__class_getitem__",
        "__del__",
        "__dir__",
        "__getattr__",
        "__hash__",
        "__init_subclass__",
        "__match_args__",
        "__post_init__",
        "__reduce__",
        "__repr__",
        "__slots__",
        "__str__",
    }
)


class Surfaces:
    """The sources of all wheels, read once: a wheel re-exports what another defines."""

    def __init__(self, root: Path = workspace.ROOT) -> None:
        self._members = workspace.members(root)
        paths = [member.folder / "src" for member in self._members if member.package]
        loader = griffe.GriffeLoader(search_paths=paths)
        self._packages = {
            member.name: loader.load(member.package.name)
            for member in self._members
            if member.package
        }
        loader.resolve_aliases(implicit=True, external=False)
        self._read = loader.modules_collection
        # Object -> the name under which it is described; others say that they are that one.
        self._home: dict[str, str] = {}
        for name, target in sorted(self._exports(), key=lambda pair: _preference(*pair)):
            self._home.setdefault(_real(target).path, name)

    def _exports(self) -> Iterator[tuple[str, griffe.Object | griffe.Alias]]:
        """Give the name and the object of every public name of every wheel."""
        for package in self._packages.values():
            for module in _public_modules(package):
                for name in sorted(_exported(module)):
                    yield f"{module.path}.{name}", module.members[name]

    def lines(self, wheel: str) -> list[str]:
        """Return the public surface of a wheel, sorted, one line for each name."""
        member = next(member for member in self._members if member.name == wheel)
        found = [*_offers(member.project), *_clauses(member.folder)]
        if wheel in self._packages:
            for module in _public_modules(self._packages[wheel]):
                found.append(f"{module.path}: module")
                for name in _exported(module):
                    found += self._described(f"{module.path}.{name}", module.members[name])
        return sorted(set(found), key=lambda line: line.partition(": ")[0])

    def _described(self, name: str, found: griffe.Object | griffe.Alias) -> Iterator[str]:
        """Describe an object under the public `name`, with its members if it is a class."""
        target = _real(found)
        home = self._home.get(target.path, target.path)
        if isinstance(target, griffe.Module) and target.path == name:
            return  # the line of the module says it
        if isinstance(target, griffe.Module | griffe.Alias) or home != name:
            yield f"{name}: is {home}"
        elif isinstance(target, griffe.Class):
            yield f"{name}: class{self._bases(target)}{_deprecated(target)}"
            for member, inside in sorted(self._members_of(target).items()):
                yield f"{name}.{member}: {_member(inside, target)}"
        else:
            yield f"{name}: {_member(target, None)}"

    def _bases(self, owner: griffe.Class) -> str:
        """Return ` (Base, ...)` with the bases that a caller can name: public ones, and others' own."""
        named: list[str] = []
        for base in owner.bases:
            path = base if isinstance(base, str) else base.canonical_path
            try:
                known = _real(self._read[path]).path in self._home
            except (KeyError, griffe.AliasResolutionError):
                known = True  # of another library, or of Python
            if known:
                named.append(str(base))
        return f" ({', '.join(named)})" if named else ""

    def _members_of(self, owner: griffe.Class) -> dict[str, griffe.Object]:
        """Return the public members of a class, those of its private bases included.

        Left out is what public bases promise already: their members, the same once more, and other
        values of these.
        """
        inherited: dict[str, str] = {}
        found: dict[str, griffe.Object] = {}
        for ancestor in [*reversed(owner.mro()), owner]:
            public = ancestor is not owner and ancestor.path in self._home
            for name, member in ancestor.members.items():
                target = _real(member)
                if not _is_promised(name) or isinstance(target, griffe.Alias | griffe.Module):
                    continue
                described = _member(target, owner)
                if public:
                    inherited[name] = described
                elif name not in inherited or described not in (inherited[name], "value"):
                    found[name] = target
        return found


def _is_promised(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__")
    return name not in UNPROMISED and (dunder or not name.startswith("_"))


def _preference(name: str, target: griffe.Object | griffe.Alias) -> tuple[bool, int, str]:
    """Order the public names of one object: where it is defined first, else the shortest."""
    return (_real(target).path != name, name.count("."), name)


def _real(found: griffe.Object | griffe.Alias) -> griffe.Object | griffe.Alias:
    """Return what an alias leads to; itself if that is outside of the workspace."""
    if isinstance(found, griffe.Alias):
        try:
            return found.final_target
        except (griffe.AliasResolutionError, griffe.CyclicAliasError):
            return found
    return found


def _public_modules(module: griffe.Object | griffe.Alias) -> Iterator[griffe.Module]:
    """Give a package and its modules, as far as they are public and say what they export."""
    if not isinstance(module, griffe.Module) or module.path in INTERNAL:
        return
    if module.exports is not None:
        yield module
    for name, inside in sorted(module.members.items()):
        if not name.startswith("_"):
            yield from _public_modules(inside)


def _exported(module: griffe.Module) -> list[str]:
    """Return the names in `__all__` that are there."""
    names = [str(name) for name in module.exports or ()]
    missing = [name for name in names if name not in module.members]
    if missing:
        message = f"{module.path} promises what no reader of the source finds: {missing}"
        raise ValueError(message)
    return names


def _member(found: griffe.Object | griffe.Alias, owner: griffe.Class | None) -> str:
    """Describe a function, a property or an attribute."""
    if isinstance(found, griffe.Function):
        if found.name.startswith("test_"):
            return TEST  # its parameters are fixtures, which pytest fills in
        overloads = found.overloads or (owner.overloads.get(found.name) if owner else None) or []
        return " // ".join(_signature(each) for each in overloads or [found]) + _deprecated(found)
    if not isinstance(found, griffe.Attribute):
        return found.kind.value
    if "property" in found.labels:
        written = "writable property" if "writable" in found.labels else "property"
        return f"{written} -> {found.annotation}{_deprecated(found)}"
    typed = f" {found.annotation}" if found.annotation else ""
    return f"value{typed}{_value(found, owner)}{_deprecated(found)}"


def _signature(found: griffe.Function) -> str:
    """Return how a function is called, without its `self` or `cls`."""
    method = isinstance(found.parent, griffe.Class) and "staticmethod" not in found.labels
    parameters = list(found.parameters)[1 if method else 0 :]
    plain = griffe.Function(
        "", parameters=griffe.Parameters(*parameters), returns=found.returns
    ).signature()
    words = [word for word in ("classmethod", "staticmethod", "async") if word in found.labels]
    return " ".join([*words, f"def {plain}"])


def _value(found: griffe.Attribute, owner: griffe.Class | None) -> str:
    """Return ` = value` where the value itself is promised.

    These are the members of an enumeration, the codes of errors, and constants of a module, such as the
    names of attributes of a span and the alternatives of a type. Hints and other wording are not.
    """
    value = found.value
    promised = owner is None or found.name == "code" or _is_enumeration(owner)
    told = re.match(r"['\"\d-]|Literal\[", str(value)) is not None
    return f" = {value}" if promised and told else ""


def _is_enumeration(owner: griffe.Class) -> bool:
    """Return whether a class derives from one of the standard library's enumerations."""
    return any(str(base).rpartition(".")[2].endswith(("Enum", "Flag")) for base in owner.bases)


def _deprecated(found: griffe.Object) -> str:
    """Return a mark for what carries a decorator that deprecates it."""
    decorators = found.decorators if isinstance(found, griffe.Function | griffe.Class) else []
    marked = any("deprecated" in str(each.value).partition("(")[0] for each in decorators)
    return " [deprecated]" if marked else ""


def _offers(project: dict[str, Any]) -> Iterator[str]:
    """Describe what the wheel's metadata offers to those who install it."""
    for extra in project.get("optional-dependencies", {}):
        yield f"[extra] {extra}: extra"
    for script, target in project.get("scripts", {}).items():
        yield f"[script] {script}: {target}"
    for group, points in project.get("entry-points", {}).items():
        for name in points:
            yield f"[entry point] {group} {name}: entry point"


def _clauses(folder: Path) -> Iterator[str]:
    """Describe the clauses of the contract, which say themselves whether an adapter must keep them."""
    for path in sorted(folder.glob("src/*/_promises/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
                continue
            level, first = node.func.id, node.args[0]
            if level in {"must", "should"} and isinstance(first, ast.Constant):
                yield f"{CLAUSE} {first.value!s}: {level.upper()}"
