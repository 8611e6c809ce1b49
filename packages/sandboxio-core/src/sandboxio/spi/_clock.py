"""What the engine measures deadlines with."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import anyio

__all__ = ["Clock", "SuppliesClock", "clock_of"]


class Clock(Protocol):
    """A source of time, and of scopes that end when it has moved on.

    Every deadline and every bound of the engine is one of these two calls. A `BackendDriver` whose
    sandboxes live in another time than the event loop's (a simulation) supplies a clock of its own,
    see `SuppliesClock`; the rules of the engine are the same then, and only what a second is
    differs. Nothing else of the engine may depend on which clock it is.
    """

    def current_time(self) -> float:
        """Return seconds since some moment in the past; never goes back."""
        ...

    def move_on_after(
        self, delay: float, *, shield: bool = False
    ) -> AbstractContextManager[anyio.CancelScope, bool]:
        """Open a scope that is cancelled after `delay` seconds, as `anyio.move_on_after` does.

        Whether it was is told by ``cancelled_caught`` of the scope, after the block.
        """
        ...


@runtime_checkable
class SuppliesClock(Protocol):
    """A `BackendDriver` with a clock of its own."""

    @property
    def clock(self) -> Clock:
        """The clock of all its sandboxes."""
        ...


class EventLoopClock:
    """The time of the event loop: what every deadline follows unless a driver says otherwise."""

    def current_time(self) -> float:
        """Return the event loop's time."""
        return anyio.current_time()

    def move_on_after(self, delay: float, *, shield: bool = False) -> anyio.CancelScope:
        """Open a scope with a deadline of the event loop."""
        return anyio.move_on_after(delay, shield=shield)


def clock_of(driver: object) -> Clock:
    """Return the clock that a driver supplies, or the event loop's."""
    return driver.clock if isinstance(driver, SuppliesClock) else EventLoopClock()
