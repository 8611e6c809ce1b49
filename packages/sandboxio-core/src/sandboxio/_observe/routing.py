"""How the decision of a router reaches the record of what it chose."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["current_route", "routed_by"]

_route: ContextVar[Mapping[str, object] | None] = ContextVar("sandboxio_route", default=None)


@contextmanager
def routed_by(decision: Mapping[str, object]) -> Generator[None, None, None]:
    """Let every sandbox that is created in this block carry `decision`, a JSON-like value.

    ``Backend.create`` has no argument for it, and a backend needs to know nothing of routing.
    """
    token = _route.set(decision)
    try:
        yield
    finally:
        _route.reset(token)


def current_route() -> Mapping[str, object] | None:
    """Return the decision that a create in this task follows, if there is one."""
    return _route.get()
