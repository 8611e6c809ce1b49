"""The decision itself: filter, rank, say why. Pure, so that it can be tried on anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import AuthError
from ..models import Capability, Health, IsolationTier
from ._decision import Outcome, RouteCandidate, RouteDecision
from ._file import BackendEntry, IsolationClass, RoutingFile
from ._request import NOTHING, RouteRequest

__all__ = ["Facts", "Need", "decide", "ranked", "resolve"]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of one entry when a request is decided.

    Attributes:
        entry: The entry.
        problem: Why there is no backend for it, for example that its wheel is not installed.
        capabilities: What its sandboxes can do.
        isolation: Their tier.
        refused: Why its credential does not do. It does not reject the entry: another backend
            must not hide a credential that has to be repaired.
        circuit: Why its circuit breaker keeps it out.
        health: What it last said, if that is fresh.
        failure: How its create ended for this very request.
    """

    entry: BackendEntry
    problem: str | None = None
    capabilities: Capability = NOTHING
    isolation: IsolationTier | None = None
    refused: AuthError | None = None
    circuit: str | None = None
    health: Health | None = None
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class Need:
    """A request, once its class is known.

    Attributes:
        request: The request.
        chosen: Its class, or ``None`` if it is pinned.
        rule: How that was found.
        floor: Least tier that is accepted.
        substitutes: Why no other entry may stand in for that of the class; ``None`` if one may.
        capabilities: What a backend must declare.
    """

    request: RouteRequest
    chosen: IsolationClass | None
    rule: str
    floor: IsolationTier | None
    substitutes: str | None
    capabilities: Capability

    @property
    def prefers(self) -> str | None:
        """The entry that goes before all others."""
        return self.request.backend if self.chosen is None else self.chosen.backend


def resolve(
    file: RoutingFile, request: RouteRequest, needed: Capability, facts: Sequence[Facts]
) -> Need:
    """Find the class of a request, and from it the least tier that any candidate must have."""
    if request.backend is not None:
        return Need(
            request=request,
            chosen=None,
            rule=f"pinned to {request.backend}",
            floor=request.require_isolation,
            substitutes=f"the request is pinned to {request.backend}",
            capabilities=needed,
        )
    chosen, rule = file.class_for(request.labels)
    own = chosen.isolation
    if own is None:
        own = next((fact.isolation for fact in facts if fact.entry.name == chosen.backend), None)
    if own is IsolationTier.UNKNOWN:
        own = None
    substitutes = None
    if not chosen.failover:
        substitutes = f"class {chosen.name} allows no backend but {chosen.backend}"
    elif own is None:
        # Whatever stood in for it might be weaker.
        substitutes = (
            f"the tier of {chosen.backend}, the backend of class {chosen.name}, is not known, so "
            "nothing may stand in for it"
        )
    return Need(
        request=request,
        chosen=chosen,
        rule=rule,
        floor=_higher(request.require_isolation, own),
        substitutes=substitutes,
        capabilities=needed,
    )


def _higher(one: IsolationTier | None, other: IsolationTier | None) -> IsolationTier | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def ranked(need: Need, facts: Sequence[Facts]) -> list[Facts]:
    """Return those that satisfy the request, whatever their health, best first."""

    def key(item: tuple[int, Facts]) -> tuple[bool, int, bool, int, int]:
        index, fact = item
        entry = fact.entry
        return (
            entry.name != need.prefers,
            -entry.priority,
            need.request.region not in entry.regions,
            entry.cost_tier,
            index,
        )

    fitting = [item for item in enumerate(facts) if unfit(need, item[1]) is None]
    return [fact for _, fact in sorted(fitting, key=key)]


def unfit(need: Need, fact: Facts) -> str | None:
    """Return why an entry does not satisfy the request at all, or ``None``."""
    entry, request = fact.entry, need.request
    if request.backend is not None:
        return None if entry.name == request.backend else need.substitutes
    missing = need.capabilities & ~fact.capabilities
    if not entry.enabled:
        return "disabled in the routing file"
    if need.substitutes is not None and entry.name != need.prefers:
        return need.substitutes
    if fact.problem is not None:
        return fact.problem
    if missing:
        return f"lacks {' '.join(str(flag.name) for flag in missing)}"
    if need.floor is not None and not _is_at_least(fact.isolation, need.floor):
        tier = "unknown" if fact.isolation is None else fact.isolation.value
        return f"its tier {tier} is below {need.floor.value}"
    if request.region is not None and entry.regions and request.region not in entry.regions:
        return f"is in {', '.join(entry.regions)}, not in {request.region}"
    return None


def _is_at_least(tier: IsolationTier | None, floor: IsolationTier) -> bool:
    return tier is not None and tier.satisfies(floor)


def out_of_order(need: Need, fact: Facts) -> str | None:
    """Return why an entry that fits cannot be used now, or ``None``."""
    if need.request.backend is not None:
        return None
    if fact.circuit is not None:
        return fact.circuit
    if fact.health is not None and not fact.health.ok:
        hint = f" ({fact.health.hint})" if fact.health.hint else ""
        return f"unhealthy: {fact.health.detail}{hint}"
    return None


def decide(need: Need, facts: Sequence[Facts]) -> RouteDecision:
    """Judge every entry. The best that fits and works is taken; the result is deterministic."""
    order = ranked(need, facts)
    tried: list[RouteCandidate] = []
    open_: list[RouteCandidate] = []
    out: list[RouteCandidate] = []
    for rank, fact in enumerate(order, start=1):
        problem = out_of_order(need, fact)
        if fact.failure is not None:
            tried.append(_candidate(fact, "failed", fact.failure, rank))
        elif problem is not None:
            out.append(_candidate(fact, "rejected", problem, rank))
        else:
            outcome: Outcome = "standby" if open_ else "taken"
            open_.append(_candidate(fact, outcome, _condition(need, fact), rank))
    for fact in facts:
        reason = unfit(need, fact)
        if reason is not None:
            # An entry that was tried stays in the record, whatever is known of it by now.
            if fact.failure is not None:
                tried.append(_candidate(fact, "failed", fact.failure))
            else:
                out.append(_candidate(fact, "rejected", reason))
    names = [fact.entry.name for fact in facts]
    out.sort(key=lambda candidate: names.index(candidate.name))
    return RouteDecision(
        class_name=None if need.chosen is None else need.chosen.name,
        rule=need.rule,
        require_isolation=need.floor,
        needs=need.capabilities,
        region=need.request.region,
        pinned=need.request.backend is not None,
        labels=need.request.labels,
        candidates=(*tried, *open_, *(replace(one, rank=None) for one in out)),
    )


def _candidate(
    fact: Facts, outcome: Outcome, reason: str, rank: int | None = None
) -> RouteCandidate:
    entry = fact.entry
    code = None if fact.refused is None else fact.refused.code
    return RouteCandidate(entry.name, entry.adapter, outcome, reason, rank, fact.isolation, code)


def _condition(need: Need, fact: Facts) -> str:
    if fact.refused is not None:
        return f"its credential does not do: {fact.refused.message}"
    if need.request.backend is not None:
        return "pinned; nothing else is tried"
    if fact.health is None:
        return "satisfies the request; not asked how it is"
    return f"healthy: {fact.health.detail}"
