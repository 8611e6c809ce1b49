"""Untrusted structure, with the place of every value, so that a problem can be pointed at."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ..errors import ConfigurationError

__all__ = ["MAX_DEPTH", "Item", "Section", "from_data", "plain", "resolved"]

MAX_DEPTH = 8
"""Levels of nesting; a routing file has five."""

MAX_DIGITS = 18
"""Digits of a number; what needs more is no priority and no limit."""


Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Item:
    """One value and where it stands.

    Attributes:
        value: Text, a number, a bool, ``None``, a list of items, or a dict of items.
        path: For example ``backends.docker-local.image``; empty for the whole.
        line: Its line, from 1; ``None`` if it is not from a file.
    """

    value: Scalar | list[Item] | dict[str, Item]
    path: str
    line: int | None = None

    @property
    def place(self) -> str:
        """Where it stands, for a message."""
        what = self.path or "the routing file"
        return what if self.line is None else f"line {self.line}, {what}"

    def problem(self, message: str, fix: str) -> ConfigurationError:
        """Return the error that names this place and the fix."""
        return ConfigurationError(f"{self.place}: {message}", hint=fix)

    @property
    def kind(self) -> str:
        """What it is, in the words of a routing file; never its content, which may be a secret."""
        names: dict[type, str] = {
            dict: "a mapping",
            list: "a list",
            bool: "true or false",
            int: "a whole number",
            float: "a number",
            str: "text",
            type(None): "empty",
        }
        return names[type(self.value)]

    def section(self, what: str) -> dict[str, Item]:
        """Return a mapping."""
        if not isinstance(self.value, dict):
            raise self.problem(
                f"{what} must be a mapping, not {self.kind}.", f"Write {what} as key: value."
            )
        return self.value

    def items(self, what: str) -> list[Item]:
        """Return a list."""
        if not isinstance(self.value, list):
            raise self.problem(
                f"{what} must be a list, not {self.kind}.", f"Write {what} as [a, b]."
            )
        return self.value

    def text(self, what: str) -> str:
        """Return text that is not empty."""
        if not isinstance(self.value, str):
            raise self.problem(
                f"{what} must be text, not {self.kind}.",
                "Put it in quotes if text is what is meant.",
            )
        if not self.value.strip() or "\0" in self.value:
            raise self.problem(f"{what} is empty.", f"Give {what} a value, or leave the key out.")
        return self.value

    def flag(self, what: str) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.problem(
                f"{what} must be true or false, not {self.kind}.", "Write true or false."
            )
        return self.value

    def whole(self, what: str) -> int:
        """Return a whole number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.problem(
                f"{what} must be a whole number, not {self.kind}.", "For example 10."
            )
        return self.value

    def positive(self, what: str) -> float:
        """Return a number above 0."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.problem(f"{what} must be a number, not {self.kind}.", "For example 300.")
        if not (value > 0 and math.isfinite(value)):
            raise self.problem(
                f"{what} must be above 0.", "A limit cannot be unset: leave the key out."
            )
        return value


class Section:
    """A mapping whose keys are taken one by one, so that what is left over is known to be unknown."""

    def __init__(self, item: Item, what: str) -> None:
        self.item = item
        self.what = what
        self._left = dict(item.section(what))
        self._known: list[str] = []

    def take(self, key: str) -> Item | None:
        """Return the value of a key that may be there."""
        self._known.append(key)
        return self._left.pop(key, None)

    def require(self, key: str, fix: str) -> Item:
        """Return the value of a key that must be there."""
        found = self.take(key)
        if found is None:
            raise self.item.problem(f"{self.what} has no {key!r}.", fix)
        return found

    def rest(self) -> dict[str, Item]:
        """Take all that is left."""
        left, self._left = self._left, {}
        return left

    def done(self) -> None:
        """Refuse what was not asked for."""
        for key, item in self._left.items():
            raise item.problem(
                f"unknown key {key!r} in {self.what}.", f"It has: {', '.join(sorted(self._known))}."
            )


_WHOLE = re.compile(rf"[-+]?[0-9]{{1,{MAX_DIGITS}}}")
_NUMBER = re.compile(rf"[-+]?[0-9]{{1,{MAX_DIGITS}}}\.[0-9]{{1,{MAX_DIGITS}}}")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


def resolved(text: str) -> Scalar:
    """Return what an unquoted scalar means in YAML 1.2: ``no`` and ``on`` are text there."""
    if text.lower() in _WORDS and text in (text.lower(), text.capitalize(), text.upper()):
        return _WORDS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return text


def from_data(data: object, path: str = "", depth: int = 0) -> Item:
    """Give the values of a dict the same form as those of a file."""
    here = Item(None, path)
    if depth > MAX_DEPTH:
        raise here.problem(
            f"nested more than {MAX_DEPTH} deep.", "A routing file is not nested so deep."
        )
    if isinstance(data, Mapping):
        values: dict[str, Item] = {}
        for key, value in cast("Mapping[object, object]", data).items():
            if not isinstance(key, str):
                raise here.problem(
                    f"a key is {type(key).__name__}, not text.", "Keys must be text."
                )
            values[key] = from_data(value, f"{path}.{key}" if path else key, depth + 1)
        return Item(values, path)
    if isinstance(data, list | tuple):
        items = cast("list[object]", data)
        return Item(
            [from_data(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(items)], path
        )
    if data is None or isinstance(data, str | bool | int | float):
        return Item(data, path)
    raise here.problem(
        f"a value is of type {type(data).__name__}.",
        "Use text, numbers, true, false, lists and mappings.",
    )


def plain(item: Item) -> object:
    """Return an option's value for a configuration class: a scalar, or a tuple of scalars."""
    if isinstance(item.value, list):
        return tuple(plain(each) for each in item.value)
    if isinstance(item.value, dict):
        raise item.problem("an option must be a scalar or a list.", "Options are not nested.")
    return item.value
