"""How a router reaches the create that it decided on, and the record of it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..routing import RouteDecision

__all__ = ["REMAINS", "RoutedCreate", "current_route", "routed_by"]

REMAINS = "Remains: "
"""How the note begins that says whether anything may be left of a create that failed."""


@dataclass(frozen=True)
class RoutedCreate:
    """What a router adds to a create.

    Attributes:
        record: The decision, JSON-like, for the audit event.
        decision: The decision, for the sandbox.
        ready_within: Seconds that provisioning may take, if that is less than the create's own
            ``timeout``: the next candidate waits.
    """

    record: Mapping[str, object]
    decision: RouteDecision
    ready_within: float


_route: ContextVar[RoutedCreate | None] = ContextVar("sandboxio_route", default=None)


@contextmanager
def routed_by(routed: RoutedCreate) -> Generator[None, None, None]:
    """Let every sandbox that is created in this block carry a decision.

    ``Backend.create`` has no argument for it, and a backend needs to know nothing of routing.
    """
    token = _route.set(routed)
    try:
        yield
    finally:
        _route.reset(token)


def current_route() -> RoutedCreate | None:
    """Return what a router added to the create in this task, if there is one."""
    return _route.get()
