"""The sync surface is the async surface: neither may grow alone."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import pytest

import sandboxio
from sandboxio import connect, connect_sync, create, create_sync, protocols
from sandboxio._api.sync_files import SyncFileSystem
from sandboxio._api.sync_process import SyncProcess
from sandboxio._api.sync_sandbox import Sandbox
from sandboxio._engine.files import EngineFiles
from sandboxio._engine.process import EngineProcess
from sandboxio._engine.sandbox import EngineSandbox

# The one name that only one side has: `close()` is what `__exit__` does, for who has no block.
ONLY_SYNC = {"close"}

# What the port does not have, because a backend without the engine has none: see `RoutedSandbox`.
BESIDES_THE_PORT = {"route"}

# How the type of one side is called on the other.
RENAMED = {
    "AsyncSandbox": "Sandbox",
    "EngineSandbox": "Sandbox",
    "AsyncFileSystem": "SyncFileSystem",
    "EngineFiles": "SyncFileSystem",
    "EngineProcess": "SyncProcess",
    "Process": "SyncProcess",
    "AsyncIterator": "Iterator",
}

DUNDERS = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    # An iterator of its own in the engine; on the other side, a generator is the iterator.
    "__anext__": None,
}

PAIRS = [
    (protocols.AsyncFileSystem, SyncFileSystem),
    (protocols.Process, SyncProcess),
    # What a caller really gets may have more than the port says.
    (EngineSandbox, Sandbox),
    (EngineFiles, SyncFileSystem),
    (EngineProcess, SyncProcess),
]


def members(kind: type) -> dict[str, Any]:
    """Public members of a class, and the dunders that mean something here."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            if not name.startswith("_") or name in DUNDERS or name in DUNDERS.values():
                found[name] = value
    return found


def as_sync(name: str) -> str | None:
    return DUNDERS.get(name, name)


def annotation(value: object) -> str:
    """An annotation as text, with the names of the sync side."""
    text = value if isinstance(value, str) else getattr(value, "__name__", repr(value))
    return re.sub(r"\w+", lambda match: RENAMED.get(match[0], match[0]), text)


def shape(value: Any) -> object:
    """Kind, parameters and return type; what is a coroutine counts as what it returns."""
    if isinstance(value, property):
        assert value.fget is not None
        return ("property", annotation(inspect.signature(value.fget).return_annotation))
    signature = inspect.signature(value)
    parameters = [
        (item.name, item.kind, item.default, annotation(item.annotation))
        for item in signature.parameters.values()
    ]
    return ("method", parameters, annotation(signature.return_annotation))


def differences(
    asynchronous: type, synchronous: type, besides: Iterable[str] = ONLY_SYNC
) -> list[str]:
    """Every way in which the two surfaces differ, in words."""
    found: list[str] = []
    theirs = {name: value for key, value in members(asynchronous).items() if (name := as_sync(key))}
    ours = {name: value for name, value in members(synchronous).items() if name not in besides}
    found += [f"{synchronous.__name__} has no {name}" for name in theirs.keys() - ours.keys()]
    found += [f"{asynchronous.__name__} has no {name}" for name in ours.keys() - theirs.keys()]
    for name in theirs.keys() & ours.keys():
        if inspect.iscoroutinefunction(ours[name]):
            found.append(f"{synchronous.__name__}.{name} is a coroutine")
        if name == "__iter__":
            continue  # returns itself on one side, a generator on the other
        if shape(theirs[name]) != shape(ours[name]):
            found.append(f"{name}: {shape(theirs[name])} is not {shape(ours[name])}")
    return found


@pytest.mark.parametrize(("asynchronous", "synchronous"), PAIRS, ids=lambda kind: kind.__name__)
def test_both_sides_have_the_same_members_with_the_same_signatures(
    asynchronous: type, synchronous: type
) -> None:
    assert differences(asynchronous, synchronous) == []


def test_the_port_has_no_less_than_the_sync_side() -> None:
    besides = ONLY_SYNC | BESIDES_THE_PORT
    assert differences(protocols.AsyncSandbox, Sandbox, besides) == []


@pytest.mark.parametrize(
    ("asynchronous", "synchronous"), [(create, create_sync), (connect, connect_sync)]
)
def test_the_functions_have_the_same_signatures(asynchronous: Any, synchronous: Any) -> None:
    assert shape(asynchronous) == shape(synchronous)
    assert inspect.iscoroutinefunction(asynchronous)
    assert not inspect.iscoroutinefunction(synchronous)


def test_every_async_function_of_the_package_has_a_sync_one() -> None:
    coroutines = {
        name for name in sandboxio.__all__ if inspect.iscoroutinefunction(getattr(sandboxio, name))
    }
    assert coroutines
    assert {f"{name}_sync" for name in coroutines} <= set(sandboxio.__all__)


def test_every_member_of_the_sync_side_is_documented() -> None:
    for kind in (Sandbox, SyncProcess, SyncFileSystem):
        assert "Example:" in (kind.__doc__ or "")
        for name, value in members(kind).items():
            if not name.startswith("_"):
                assert inspect.getdoc(value), f"{kind.__name__}.{name}"


# ----- the test itself is tested: each of these sides has grown, or changed, alone


class Async:
    @property
    def id(self) -> str:
        return ""

    async def run(self, cmd: str, *, timeout: float | None = None) -> int:
        return 0


class Same:
    @property
    def id(self) -> str:
        return ""

    def run(self, cmd: str, *, timeout: float | None = None) -> int:
        return 0


class Less:
    @property
    def id(self) -> str:
        return ""


class More(Same):
    def extra(self) -> None: ...


class OtherDefault(Same):
    def run(self, cmd: str, *, timeout: float | None = 5) -> int:
        return 0


class OtherKind:
    @property
    def id(self) -> str:
        return ""

    def run(self, cmd: str, timeout: float | None = None) -> int:
        return 0


class OtherReturn(Same):
    def run(self, cmd: str, *, timeout: float | None = None) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ""


class NoProperty(Same):
    def id(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ""


class StillAsync(Same):
    async def run(self, cmd: str, *, timeout: float | None = None) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return 0


def test_equal_sides_are_found_equal() -> None:
    assert differences(Async, Same) == []


@pytest.mark.parametrize(
    "other", [Less, More, OtherDefault, OtherKind, OtherReturn, NoProperty, StillAsync]
)
def test_a_side_that_changes_alone_is_found(other: type) -> None:
    assert len(differences(Async, other)) == 1
