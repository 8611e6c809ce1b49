"""A circuit breaker: keeps a backend that keeps failing out for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

__all__ = ["Breaker", "CircuitState"]

CircuitState = Literal["closed", "open", "half-open"]
"""State of an entry's circuit: creates go through, none does, or one may try."""

LONGEST_HOLD = 300.0
"""Seconds that a provider can ask to be left alone for; a wish for more is not believed."""


class Breaker:
    """The circuit of one entry of one router.

    *Closed*: creates go through. After `limit` failures in a row it is *open*: none does, for
    `open_for` seconds. Then it is *half-open*: one create may try; if that fails it is open again,
    and if that succeeds it is closed.

    All its methods are synchronous and may be called from any thread.
    """

    def __init__(self, now: Callable[[], float], *, limit: int, open_for: float) -> None:
        self._now = now
        self._limit = limit
        self._open_for = open_for
        self._lock = threading.Lock()
        self._failures = 0
        self._until: float | None = None
        self._probing = False
        self._last = ""

    @property
    def state(self) -> CircuitState:
        """``"closed"``, ``"open"`` or ``"half-open"``."""
        until = self._until
        if until is None:
            return "closed"
        return "open" if self._now() < until else "half-open"

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._failures

    @property
    def last_failure(self) -> str:
        """What the last failure said; empty if there was none since it last worked."""
        return self._last

    @property
    def opens_in(self) -> float | None:
        """Seconds until it is half-open, or ``None`` if it is not open."""
        until = self._until
        if until is None:
            return None
        left = until - self._now()
        return left if left > 0 else None

    @property
    def reason(self) -> str | None:
        """Why a create is kept out now, or ``None``."""
        left = self.opens_in
        if left is not None:
            return (
                f"its circuit is open for another {left:.1f} s, after {self._failures} failures in "
                f"a row; the last: {self._last}"
            )
        if self._until is not None and self._probing:
            return "its circuit is half-open, and another create is trying it"
        return None

    def admit(self) -> bool:
        """Ask to let one create through; who is let through says how it ended."""
        with self._lock:
            if self._until is None:
                return True
            if self._now() < self._until or self._probing:
                return False
            self._probing = True
            return True

    def succeeded(self) -> None:
        """A create went well."""
        with self._lock:
            self._failures, self._until, self._probing, self._last = 0, None, False, ""

    def failed(self, why: str, hold: float | None = None) -> None:
        """A create failed for want of capacity or reach; `hold` is what the provider asked for."""
        with self._lock:
            was_open = self._until is not None
            self._failures += 1
            self._probing = False
            self._last = why
            if was_open or self._failures >= self._limit:
                self._until = self._now() + self._open_for
            if hold is not None and hold > 0:
                self._until = max(self._until or 0.0, self._now() + min(hold, LONGEST_HOLD))

    def released(self) -> None:
        """A create ended in a way that says nothing of the backend."""
        with self._lock:
            self._probing = False
