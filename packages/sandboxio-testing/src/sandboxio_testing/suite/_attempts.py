"""Calls that are expected to fail, or are cancelled at their nth wait so that nothing is luck."""

from __future__ import annotations

import gc
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio

__all__ = ["Interrupted", "attempt", "interrupt", "spread", "stepped"]

T = TypeVar("T")


@types.coroutine
def stepped(call: Coroutine[Any, Any, T], at_wait: Callable[[int], None]) -> Generator[Any, Any, T]:
    """Await a coroutine, and call `at_wait` with 1, 2, … just before it waits each time."""
    send: Callable[[], Any] = lambda: call.send(None)  # noqa: E731 - it is replaced below
    waits = 0
    while True:
        try:
            request = send()
        except StopIteration as stop:
            result: T = stop.value
            return result
        waits += 1
        at_wait(waits)
        try:
            answer = yield request
        except BaseException as error:  # noqa: BLE001 - it is raised again, inside the call
            send = _thrower(call, error)
        else:
            send = _sender(call, answer)


def _thrower(call: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: call.throw(error)


def _sender(call: Coroutine[Any, Any, Any], answer: object) -> Callable[[], Any]:
    return lambda: call.send(answer)


@dataclass
class Interrupted(Generic[T]):
    """What became of a call that was cancelled at one of its waits.

    Attributes:
        result: What it returned, if it got that far.
        error: What it raised, other than the cancellation.
        waits: How often it had waited.
        cancelled: Whether it ended by the cancellation.
    """

    result: T | None = None
    error: Exception | None = None
    waits: int = 0
    cancelled: bool = False


async def interrupt(call: Callable[[], Coroutine[Any, Any, T]], at: int) -> Interrupted[T]:
    """Make a call and cancel it at its wait number `at`; 0 lets it run to its end."""
    outcome: Interrupted[T] = Interrupted()
    # The collection below then looks at what the call made, and not at all that is imported.
    gc.freeze()
    try:
        with anyio.CancelScope() as scope:

            def at_wait(number: int) -> None:
                outcome.waits = number
                if number == at:
                    scope.cancel()

            try:
                outcome.result = await stepped(call(), at_wait)
            except Exception as error:  # noqa: BLE001 - it is what the caller asks for
                outcome.error = error
        outcome.cancelled = scope.cancelled_caught
        # What a cancelled call forgot to close complains now, in the test that cancelled it.
        gc.collect()
    finally:
        gc.unfreeze()
    return outcome


def spread(last: int, count: int) -> list[int]:
    """Choose up to `count` numbers from 1 to `last`, the first and the last among them."""
    if last <= count:
        return list(range(1, last + 1))
    return sorted({1 + round(step * (last - 1) / (count - 1)) for step in range(count)})


async def attempt(call: Awaitable[object]) -> Exception | None:
    """Await something and return the error that it raised, if any."""
    try:
        await call
    except Exception as error:  # noqa: BLE001 - it is what the caller asks for
        return error
    return None
