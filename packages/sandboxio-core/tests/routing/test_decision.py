"""The decision itself, on anything: deterministic, satisfying, and in order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxio.errors import AuthError
from sandboxio.models import Capability, Health, IsolationTier
from sandboxio.routing import RouteDecision, RouteRequest
from sandboxio.routing._choose import Facts, Need, decide, resolve
from sandboxio.routing._file import BackendEntry, IsolationClass, RouteRule, RoutingFile

CAPABILITIES = [Capability.STREAMING, Capability.STATEFUL_CODE, Capability.NETWORK_ALLOWLIST]
REGIONS = ["eu", "us", "asia"]
TIERS = [*IsolationTier]

some_capabilities = st.sets(st.sampled_from(CAPABILITIES)).map(
    lambda flags: Capability(sum(flag.value for flag in flags))
)
some_regions = st.lists(st.sampled_from(REGIONS), unique=True, max_size=2).map(tuple)


@st.composite
def cases(draw: st.DrawFn) -> tuple[RoutingFile, RouteRequest, list[Facts]]:
    """A file, a request, and what is known of each entry at that moment."""
    names = [f"entry{number}" for number in range(draw(st.integers(1, 6)))]
    facts = [
        Facts(
            entry=BackendEntry(
                name=name,
                adapter="any",
                place=name,
                priority=draw(st.integers(-2, 2)),
                cost_tier=draw(st.integers(0, 2)),
                regions=draw(some_regions),
                enabled=draw(st.sampled_from([True, True, True, False])),
            ),
            problem=draw(st.sampled_from([None, None, None, "not installed"])),
            capabilities=draw(some_capabilities),
            isolation=draw(st.sampled_from([None, *TIERS])),
            circuit=draw(st.sampled_from([None, None, None, "open"])),
            health=draw(
                st.sampled_from([None, Health(ok=True, detail="up"), Health(ok=False, detail="no")])
            ),
            failure=draw(st.sampled_from([None, None, None, "throttled"])),
        )
        for name in names
    ]
    file = RoutingFile(
        backends={fact.entry.name: fact.entry for fact in facts},
        classes={
            "one": IsolationClass(
                name="one",
                backend=draw(st.sampled_from(names)),
                isolation=draw(st.sampled_from([None, None, *TIERS[1:]])),
                failover=draw(st.booleans()),
            ),
            "two": IsolationClass(name="two", backend=draw(st.sampled_from(names))),
        },
        routes=(RouteRule(match={"tool": "two"}, class_name="two"),),
        default_class="one",
    )
    request = RouteRequest(
        labels={"tool": draw(st.sampled_from(["one", "two"]))},
        needs=draw(some_capabilities),
        require_isolation=draw(st.sampled_from([None, *TIERS[1:]])),
        region=draw(st.sampled_from([None, *REGIONS])),
        backend=draw(st.sampled_from([None, None, None, *names])),
    )
    return file, request, facts


def decided(case: tuple[RoutingFile, RouteRequest, list[Facts]]) -> tuple[Need, RouteDecision]:
    file, request, facts = case
    need = resolve(file, request, request.needs, facts)
    return need, decide(need, facts)


def is_satisfied_by(case: tuple[RoutingFile, RouteRequest, list[Facts]], fact: Facts) -> bool:
    """Written from the rules anew, so that the code is not its own judge."""
    file, request, facts = case
    entry = fact.entry
    if request.backend is not None:
        return entry.name == request.backend and fact.failure is None
    chosen = file.classes["two" if request.labels["tool"] == "two" else "one"]
    tiers = {known.entry.name: known.isolation for known in facts}
    floor = chosen.isolation or tiers[chosen.backend]
    if floor in (None, IsolationTier.UNKNOWN):
        if entry.name != chosen.backend:
            return False
        floor = None
    if not chosen.failover and entry.name != chosen.backend:
        return False
    ranks = {None: -1, **{tier: tier.rank for tier in TIERS}}
    wanted = max(ranks[floor] if floor else 0, ranks[request.require_isolation], 0)
    return (
        entry.enabled
        and fact.problem is None
        and request.needs & fact.capabilities == request.needs
        and (wanted == 0 or ranks[fact.isolation] >= wanted)
        and (request.region is None or not entry.regions or request.region in entry.regions)
        and fact.circuit is None
        and not (fact.health is not None and not fact.health.ok)
        and fact.failure is None
    )


@settings(max_examples=300, deadline=None)
@given(cases())
def test_decision_is_deterministic_and_names_every_entry_with_a_reason(
    case: tuple[RoutingFile, RouteRequest, list[Facts]],
) -> None:
    _, first = decided(case)
    _, second = decided(case)
    assert first == second
    assert sorted(one.name for one in first.candidates) == sorted(case[0].backends)
    assert all(one.reason for one in first.candidates)
    assert json.loads(json.dumps(first.as_dict())) == first.as_dict()
    assert len(str(first).splitlines()) == 1 + len(first.candidates)


@settings(max_examples=300, deadline=None)
@given(cases())
def test_what_is_taken_satisfies_the_request_and_nothing_is_refused_that_would(
    case: tuple[RoutingFile, RouteRequest, list[Facts]],
) -> None:
    _, decision = decided(case)
    fitting = [fact.entry.name for fact in case[2] if is_satisfied_by(case, fact)]
    shown = [one.name for one in decision.candidates if one.outcome in ("taken", "standby")]
    assert sorted(shown) == sorted(fitting)
    assert (decision.taken in fitting) if fitting else decision.taken is None


@settings(max_examples=300, deadline=None)
@given(cases())
def test_no_candidate_outranks_the_one_that_is_taken(
    case: tuple[RoutingFile, RouteRequest, list[Facts]],
) -> None:
    file, request, facts = case
    _, decision = decided(case)
    chosen = file.classes["two" if request.labels["tool"] == "two" else "one"]

    def key(index: int) -> tuple[object, ...]:
        entry = facts[index].entry
        return (
            0 if entry.name == chosen.backend else 1,
            -entry.priority,
            0 if request.region in entry.regions else 1,
            entry.cost_tier,
            index,
        )

    by_name = {fact.entry.name: index for index, fact in enumerate(facts)}
    order = [one.name for one in decision.candidates if one.outcome in ("taken", "standby")]
    assert [by_name[name] for name in order] == sorted(
        (by_name[name] for name in order), key=lambda index: key(index)
    )


@settings(max_examples=300, deadline=None)
@given(cases())
def test_no_failure_lowers_the_tier(case: tuple[RoutingFile, RouteRequest, list[Facts]]) -> None:
    """Whatever fails, the floor stays where it was when nothing had."""
    file, request, facts = case
    if request.backend is not None:
        return
    need, _ = decided(case)
    for failing in range(len(facts)):
        now = [
            Facts(
                entry=fact.entry,
                problem=fact.problem,
                capabilities=fact.capabilities,
                isolation=fact.isolation,
                failure="down" if index <= failing else None,
            )
            for index, fact in enumerate(facts)
        ]
        after, decision = decided((file, request, now))
        assert after.floor is need.floor
        taken = decision.chosen
        if taken is not None and need.floor is not None:
            assert taken.isolation is not None
            assert taken.isolation.satisfies(need.floor)


# --- one rule, one test ---------------------------------------------------------------------------


def entry(name: str, **more: Any) -> BackendEntry:
    return BackendEntry(name=name, adapter="any", place=name, **more)


def fact(name: str, tier: object = IsolationTier.CONTAINER, **more: object) -> Facts:
    options = {key: more.pop(key) for key in [*more] if key in BackendEntry.__annotations__}
    known: Any = {"isolation": tier, **more}
    return Facts(entry=entry(name, **options), **known)


def routed(
    facts: Sequence[Facts],
    request: RouteRequest | None = None,
    chosen: IsolationClass | None = None,
) -> RouteDecision:
    chosen = chosen or IsolationClass(name="standard", backend=facts[0].entry.name)
    file = RoutingFile(
        backends={one.entry.name: one.entry for one in facts},
        classes={"standard": chosen},
        routes=(),
        default_class="standard",
    )
    request = request or RouteRequest()
    return decide(resolve(file, request, request.needs, facts), facts)


def reason(decision: RouteDecision, name: str) -> str:
    return next(one.reason for one in decision.candidates if one.name == name)


def test_the_backend_of_the_class_goes_before_any_priority() -> None:
    assert routed([fact("own"), fact("other", priority=9)]).taken == "own"


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"priority": 1}, {"priority": 0, "regions": ("eu",)}),
        ({"regions": ("eu",), "cost_tier": 5}, {"cost_tier": 0}),
        ({"cost_tier": 1}, {"cost_tier": 2}),
        ({}, {}),
    ],
    ids=["priority", "exact region", "cost", "order of the file"],
)
def test_rank(better: dict[str, object], worse: dict[str, object]) -> None:
    facts = [fact("own", enabled=False), fact("better", **better), fact("worse", **worse)]
    assert routed(facts, RouteRequest(region="eu")).taken == "better"
    if better:
        facts = [facts[0], facts[2], facts[1]]
        assert routed(facts, RouteRequest(region="eu")).taken == "better"


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        ({"enabled": False}, "disabled"),
        ({"problem": "not installed: uv pip install x"}, "not installed"),
        ({"tier": IsolationTier.CONTAINER}, "its tier container is below gvisor"),
        ({"regions": ("us",)}, "is in us, not in eu"),
        ({"circuit": "its circuit is open"}, "its circuit is open"),
        ({"health": Health(ok=False, detail="no daemon", hint="start it")}, "no daemon (start it)"),
        ({"capabilities": Capability(0)}, "lacks STREAMING"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_rejected_with_its_reason(
    refused: dict[str, object], why: str
) -> None:
    request = RouteRequest(
        needs=Capability.STREAMING, require_isolation=IsolationTier.GVISOR, region="eu"
    )
    good: dict[str, object] = {"tier": IsolationTier.MICROVM, "capabilities": Capability.STREAMING}
    facts = [fact("bad", **{**good, **refused}), fact("good", **good)]
    chosen = IsolationClass(name="standard", backend="bad", isolation=IsolationTier.CONTAINER)
    decision = routed(facts, request, chosen)
    assert decision.taken == "good"
    assert why in reason(decision, "bad")


def test_a_backend_without_regions_fits_every_region() -> None:
    assert routed([fact("anywhere")], RouteRequest(region="eu")).taken == "anywhere"


def test_the_tier_of_a_class_is_that_of_its_backend() -> None:
    facts = [fact("vm", IsolationTier.MICROVM, failure="throttled"), fact("container")]
    decision = routed(facts)
    assert decision.taken is None
    assert decision.require_isolation is IsolationTier.MICROVM
    assert reason(decision, "container") == "its tier container is below microvm"


@pytest.mark.parametrize("tier", [None, IsolationTier.UNKNOWN])
def test_nothing_stands_in_for_a_backend_of_unknown_tier(tier: IsolationTier | None) -> None:
    decision = routed([fact("own", tier, failure="down"), fact("vm", IsolationTier.MICROVM)])
    assert decision.taken is None
    assert "is not known" in reason(decision, "vm")


def test_a_class_can_refuse_all_others() -> None:
    chosen = IsolationClass(name="standard", backend="own", failover=False)
    decision = routed([fact("own", failure="down"), fact("other")], chosen=chosen)
    assert decision.taken is None
    assert reason(decision, "other") == "class standard allows no backend but own"


def test_a_backend_of_unknown_tier_may_still_be_that_of_a_class() -> None:
    for failover in (True, False):
        chosen = IsolationClass(name="standard", backend="own", failover=failover)
        assert routed([fact("own", IsolationTier.UNKNOWN)], chosen=chosen).taken == "own"


def test_a_pin_skips_every_filter_and_every_other_backend() -> None:
    facts = [
        fact("good"),
        fact("pinned", health=Health(ok=False, detail="down"), circuit="open", regions=("us",)),
    ]
    decision = routed(facts, RouteRequest(backend="pinned", region="eu"))
    assert (decision.taken, decision.pinned) == ("pinned", True)
    assert reason(decision, "good") == "the request is pinned to pinned"


def test_a_refused_credential_keeps_its_rank_so_that_it_is_heard_of() -> None:
    decision = routed([fact("own", refused=AuthError("no key")), fact("other")])
    assert decision.taken == "own"
    assert "no key" in reason(decision, "own")


def test_the_first_route_that_matches_wins() -> None:
    one = IsolationClass(name="one", backend="a")
    two = IsolationClass(name="two", backend="b")
    file = RoutingFile(
        backends={"a": entry("a"), "b": entry("b")},
        classes={"one": one, "two": two},
        routes=(
            RouteRule(match={"tool": "x", "tenant": "big"}, class_name="two"),
            RouteRule(match={"tool": "x"}, class_name="one"),
            RouteRule(match={"tenant": "big"}, class_name="two"),
        ),
        default_class="one",
    )
    assert file.class_for({"tool": "x", "tenant": "big", "more": "y"})[0] is two
    assert file.class_for({"tool": "x"}) == (one, "routes[1]: tool=x")
    assert file.class_for({"tenant": "big"})[0] is two
    assert file.class_for({"tool": "z"}) == (one, "default_class")
