"""The bounds of a router, and its clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import cast

import anyio

from ..errors import ConfigurationError

__all__ = ["MonotonicClock", "RouterTuning"]


@dataclass(frozen=True, kw_only=True)
class RouterTuning:
    """Bounds of a router, in seconds. The defaults are meant to be right.

    Attributes:
        health_bound: What a backend has to say how it is. The engine gives its drivers 2 s, so
            this ends only what implements the ports by itself.
        health_fresh: How long what it said is believed.
        attempt_bound: What one candidate has to create a sandbox, as long as another could take
            over. The last one has all that is left of the create's ``timeout``. Pulling an image
            is not counted: that has a bound of its own in the adapter.
        failures_to_open: Failures in a row that open the circuit of an entry.
        open_for: How long it stays open.

    Example:
        >>> from sandboxio.routing import Router, RouterTuning
        >>> router = Router.default(tuning=RouterTuning(open_for=60))
    """

    health_bound: float = 2.5
    health_fresh: float = 5.0
    attempt_bound: float = 30.0
    failures_to_open: int = 3
    open_for: float = 30.0

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = cast("object", getattr(self, name))
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigurationError(f"RouterTuning.{name} must be a number above 0.")


class MonotonicClock:
    """The host's clock, which all event loops and threads that use a router share."""

    def current_time(self) -> float:
        """Return the host's monotonic time."""
        return time.monotonic()

    def move_on_after(self, delay: float, *, shield: bool = False) -> anyio.CancelScope:
        """Open a scope with a deadline of the event loop."""
        return anyio.move_on_after(delay, shield=shield)
