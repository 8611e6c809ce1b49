"""How long the suite waits for what.

No clause is about speed: each bound is what a busy machine may need, and what a hang exceeds.
"""

from __future__ import annotations

__all__ = ["BEATS", "GRACE", "LIFETIME_SLACK", "PUT_AWAY", "SHORT", "TEST", "TICK"]

TEST = 60.0
"""Seconds for one test; runs out when the backend hangs."""

GRACE = 20.0
"""Seconds after a deadline in which its error has to come; the engine's own grace is a quarter."""

LIFETIME_SLACK = 20.0
"""Seconds after its lifetime in which a provider has to have ended a sandbox."""

PUT_AWAY = 15.0
"""Seconds to end a sandbox after a test; runs out when the backend cannot, which has a clause."""

SHORT = 0.5
"""Seconds of a deadline that is meant to pass."""

BEATS = (1.5, 12.0)
"""Seconds of a deadline that is meant to pass when the command runs: the second where it had not begun
at the first, on a busy machine."""

TICK = 0.05
"""Seconds between two looks at something that is waited for."""
