"""The circuit breaker, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandboxio.errors import NoRoute, RateLimitError, SandboxUnreachable
from sandboxio.models import Health
from sandboxio.routing import RouterTuning
from sandboxio.routing._breaker import LONGEST_HOLD, Breaker

DOWN = SandboxUnreachable("no daemon")


@pytest.fixture
def breaker(virtual_clock: Any) -> Breaker:
    return Breaker(virtual_clock.current_time, limit=3, open_for=30)


def test_it_opens_after_so_many_failures_in_a_row_and_not_before(breaker: Breaker) -> None:
    breaker.failed("one")
    breaker.failed("two")
    breaker.succeeded()
    breaker.failed("one")
    breaker.failed("two")
    assert (breaker.state, breaker.reason, breaker.admit()) == ("closed", None, True)
    breaker.failed("three")
    assert (breaker.state, breaker.opens_in, breaker.admit()) == ("open", 30, False)
    assert breaker.reason is not None
    assert "another 30.0 s" in breaker.reason
    assert "three" in breaker.reason


def test_it_half_opens_for_one_and_closes_when_that_succeeds(
    breaker: Breaker, virtual_clock: Any
) -> None:
    for _ in range(3):
        breaker.failed("down")
    virtual_clock.now += 29.9
    assert breaker.state == "open"
    virtual_clock.now += 0.1
    assert (breaker.state, breaker.opens_in, breaker.reason) == ("half-open", None, None)
    assert breaker.admit()
    assert not breaker.admit()
    assert breaker.reason == "its circuit is half-open, and another create is trying it"
    breaker.succeeded()
    assert (breaker.state, breaker.failures, breaker.admit()) == ("closed", 0, True)


def test_it_opens_again_when_the_one_fails(breaker: Breaker, virtual_clock: Any) -> None:
    for _ in range(3):
        breaker.failed("down")
    virtual_clock.now += 30
    assert breaker.admit()
    breaker.failed("still down")
    assert (breaker.state, breaker.opens_in) == ("open", 30)


def test_an_end_that_says_nothing_of_the_backend_lets_the_next_one_try(
    breaker: Breaker, virtual_clock: Any
) -> None:
    for _ in range(3):
        breaker.failed("down")
    virtual_clock.now += 30
    assert breaker.admit()
    breaker.released()
    assert breaker.state == "half-open"
    assert breaker.admit()


def test_a_provider_that_asks_for_time_gets_it_at_once(
    breaker: Breaker, virtual_clock: Any
) -> None:
    breaker.failed("throttled", hold=12)
    assert (breaker.state, breaker.opens_in) == ("open", 12)
    breaker.failed("throttled", hold=1e9)
    assert breaker.opens_in == LONGEST_HOLD


async def test_a_failing_backend_is_kept_out_tried_again_and_taken_back(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage(
        [driver("first", script=[DOWN] * 4), driver("second")],
        tuning=RouterTuning(failures_to_open=3, open_for=30),
    )
    for _ in range(5):
        assert (await up.router.create()).route.taken == "second"
    assert up.created.count("first") == 3
    first, second = up.router.status()
    assert (first.circuit, first.failures, second.circuit) == ("open", 3, "closed")
    assert first.last_failure == "SandboxUnreachable: no daemon"
    decision = up.router.explain()
    assert (decision.taken, decision.candidates[1].outcome) == ("second", "rejected")
    assert "its circuit is open for another 30.0 s" in decision.candidates[1].reason

    up.clock.now += 30
    assert up.router.status()[0].circuit == "half-open"
    assert (await up.router.create()).route.taken == "second"  # it was tried, and failed again
    assert up.created.count("first") == 4
    assert up.router.status()[0].circuit == "open"

    up.clock.now += 30
    assert (await up.router.create()).route.taken == "first"
    assert up.router.status()[0].circuit == "closed"


async def test_throttling_keeps_a_backend_out_for_as_long_as_it_asked(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first", script=[RateLimitError("slow down", retry_after=7)]), driver("b")])
    assert (await up.router.create()).route.taken == "b"
    assert up.router.status()[0].opens_in == 7
    assert (await up.router.create()).route.taken == "b"
    up.clock.now += 7
    assert (await up.router.create()).route.taken == "first"


async def test_two_routers_share_nothing(stage: Callable[..., Any], driver: Any) -> None:
    tuning = RouterTuning(failures_to_open=1)
    shared = driver("shared", script=[DOWN])
    one, two = stage([shared], tuning=tuning), stage([shared], tuning=tuning)
    with pytest.raises(NoRoute):
        await one.router.create()
    assert [up.router.status()[0].circuit for up in (one, two)] == ["open", "closed"]
    asked = shared.asked
    assert (await two.router.create()).route.taken == "shared"
    assert shared.asked == asked + 1
    assert one.router.status()[0].health is None
    assert two.router.status()[0].health == Health(ok=True, detail="on stage")


async def test_status_tells_what_doctor_shows(stage: Callable[..., Any], driver: Any) -> None:
    up = stage([driver("on"), driver("off")], entries={"off": {"enabled": False}})
    await up.router.create()
    on, off = up.router.status()
    assert (on.name, on.enabled, on.circuit, on.problem) == ("on", True, "closed", None)
    assert on.health == Health(ok=True, detail="on stage")
    assert (off.enabled, off.health) == (False, None)
