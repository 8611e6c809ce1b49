"""The values that modelled Python code can have, besides plain numbers, text and containers."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..internet import Reply
from ..process import Proc, Wait

__all__ = [
    "BIG",
    "CannotModel",
    "File",
    "Module",
    "Native",
    "Opaque",
    "Raised",
    "Value",
    "checked_format",
    "checked_size",
    "pure",
    "reason",
]

Value: TypeAlias = Generator[Wait, None, Any]

BIG = 1 << 24
"""Bytes or items of one value beyond which the fake keeps its size only."""


class CannotModel(Exception):
    """The code does something that the fake does not know."""


class Raised(Exception):
    """An exception of the modelled code, on its way up."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


@dataclass
class Native:
    """A function that is not written in the modelled code."""

    name: str
    call: Callable[[Proc, list[Any], dict[str, Any]], Value]


@dataclass
class Module:
    """A module, or anything else that has attributes only."""

    name: str
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Opaque:
    """A value too big to be kept: its memory counts, and its content is unknown."""

    size: int


@dataclass
class File:
    """An open file of the sandbox, or the body of a response."""

    fd: int
    writes: bool
    binary: bool
    data: bytes | None = None
    closed: bool = False


def pure(name: str, function: Callable[..., Any]) -> Native:
    """Make a function of one that does not wait and needs no process."""

    def call(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
        yield from ()
        for arg in args:
            if isinstance(arg, range) and len(arg) > BIG // 16:
                raise CannotModel(f"{name}() of so many items")
            if isinstance(arg, (Native, Module, Opaque, File)):
                raise CannotModel(f"{name}() of such a value")
        return function(*args, **keywords)

    return Native(name, call)


def checked_size(proc: Proc, size: int) -> Opaque | None:
    """Charge for a value; return what stands for it if it is too big to be made."""
    if size < 0:
        return None
    if size > BIG // 256:
        proc.use_memory(size)
    return Opaque(size) if size > BIG else None


def checked_format(spec: str) -> str:
    """Refuse a format that would make a very long text."""
    if any(len(number) > 4 for number in re.findall(r"\d+", spec)):
        raise CannotModel(f"the format {spec[:40]!r}")
    return spec


def reason(reply: Reply) -> str:
    """Return what an ``OSError`` says about a request that was not answered."""
    return {
        Reply.DENIED_NAME: "[Errno -3] Temporary failure in name resolution",
        Reply.DENIED_ADDRESS: "[Errno 101] Network is unreachable",
        Reply.REFUSED: "[Errno 111] Connection refused",
    }[reply]
