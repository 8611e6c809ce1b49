"""The two marks of a standard test: the clause that it proves, and what it needs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import anyio
import pytest

from sandboxio.models import Capability

from ..clauses import CLAUSES
from ._base import ContractBase

__all__ = ["clause", "needs"]

P = ParamSpec("P")
Self = TypeVar("Self", bound=ContractBase)
Test = Callable[Concatenate[Self, P], Coroutine[Any, Any, None]]


def clause(ident: str) -> Callable[[Test[Self, P]], Test[Self, P]]:
    """Mark a test as a proof of a clause, and bound it: a backend that hangs fails it."""
    assert ident in CLAUSES, f"there is no clause {ident}"

    def decorate(test: Test[Self, P]) -> Test[Self, P]:
        @functools.wraps(test)
        async def bounded(self: Self, *args: P.args, **kwargs: P.kwargs) -> None:
            __tracebackhide__ = True
            with anyio.move_on_after(self.bound) as scope:
                try:
                    await test(self, *args, **kwargs)
                except BaseExceptionGroup as group:
                    failure: BaseExceptionGroup[BaseException] = group
                    raise plain(failure) from failure
            if scope.cancelled_caught:
                pytest.fail(f"it did not finish within {self.bound:g} s")

        marked: Test[Self, P] = pytest.mark.clause(ident)(bounded)  # type: ignore[assignment]
        return marked

    return decorate


def plain(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the failure within the groups that task groups make of it.

    A failure of pytest's is no ``Exception``, so a group of one is none either, and would end the
    event loop of all tests that follow.
    """
    pending: list[BaseException] = [group]
    while pending:
        error = pending.pop(0)
        if isinstance(error, BaseExceptionGroup):
            pending.extend(cast("BaseExceptionGroup[BaseException]", error).exceptions)
        elif isinstance(error, Exception | pytest.fail.Exception | pytest.skip.Exception):
            return error
    return group


def needs(capability: Capability) -> Callable[[Any], Any]:
    """Mark a test, or each test of a class, as one for backends that declare a capability.

    A class itself is never marked: `BackendContract` would inherit the mark, and apply it to the
    tests of every other area as well.
    """

    def decorate(target: Any) -> Any:
        if not isinstance(target, type):
            return pytest.mark.needs(capability)(target)
        for name, test in list(vars(target).items()):
            if name.startswith("test_"):
                setattr(target, name, pytest.mark.needs(capability)(test))
        return target

    return decorate
