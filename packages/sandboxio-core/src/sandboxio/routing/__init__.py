"""Routing: one request, the right sandbox.

    router = Router.from_file("sandboxio-routing.yaml")
    async with await router.create(labels={"tool": "run_python"}, region="eu") as sandbox: ...

A router filters the backends of a routing file by what a request needs, ranks those that are left,
and creates in that order. Failover never lowers the isolation tier, never widens egress, and never
happens after code of the caller has run.
"""

from __future__ import annotations

from ._breaker import CircuitState
from ._decision import RouteCandidate, RouteDecision
from ._lanes import EntryStatus
from ._request import CreateArguments, RouteRequest
from ._routed import RoutedSandbox
from ._router import Route, Router
from ._tuning import RouterTuning

__all__ = [
    "CircuitState",
    "CreateArguments",
    "EntryStatus",
    "Route",
    "RouteCandidate",
    "RouteDecision",
    "RouteRequest",
    "RoutedSandbox",
    "Router",
    "RouterTuning",
]
