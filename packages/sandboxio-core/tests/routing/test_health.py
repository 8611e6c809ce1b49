"""Health: asked at once, bounded, and once for all who want to know."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import sandboxio
from sandboxio.errors import AuthError, NoRoute, SandboxUnreachable
from sandboxio.models import Capability, Health
from sandboxio.routing import RouteRequest, RouterTuning

HANDFUL = 5


@pytest.mark.slow
async def test_a_thousand_creates_at_once_ask_once(stage: Callable[..., Any], driver: Any) -> None:
    up = stage([driver("first"), driver("second")])
    async with anyio.create_task_group() as group:
        for _ in range(1000):
            group.start_soon(up.router.create)
    assert up.created == ["first"] * 1000
    assert up["first"].asked == 1
    assert up["second"].asked <= HANDFUL


async def test_many_creates_ask_a_handful_beside_a_hanging_standby(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first"), driver("second", says="hang")])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(200):
                group.start_soon(up.router.create)
    assert up.created == ["first"] * 200
    assert up["first"].asked == 1
    assert up["second"].asked <= HANDFUL


async def test_many_creates_ask_a_handful_when_the_best_is_down(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first", script=[SandboxUnreachable("x")] * 200), driver("second")])
    async with anyio.create_task_group() as group:
        for _ in range(200):
            group.start_soon(up.router.create)
    assert up.created.count("second") == 200
    assert up["first"].asked + up["second"].asked <= HANDFUL


def test_routers_may_be_used_from_many_threads_with_an_event_loop_each(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first"), driver("second")])
    failed: list[BaseException] = []

    def work(loop: str) -> None:
        async def several() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(50):
                    group.start_soon(up.router.create)

        try:
            anyio.run(several, backend=loop)
        except BaseException as error:  # shown below
            failed.append(error)

    threads = [
        threading.Thread(target=work, args=(loop,)) for loop in ("asyncio", "trio", "asyncio")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert up.created == ["first"] * 150
    assert up["first"].asked <= len(threads)


async def test_what_was_said_is_believed_for_some_seconds(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("only")], tuning=RouterTuning(health_fresh=5))
    await up.router.create()
    up.clock.now += 4.9
    await up.router.create()
    assert up["only"].asked == 1
    up.clock.now += 0.2
    await up.router.create()
    assert up["only"].asked == 2


async def test_a_failed_create_ends_the_belief(stage: Callable[..., Any], driver: Any) -> None:
    up = stage([driver("only", script=[None, SandboxUnreachable("x")])])
    await up.router.create()
    up.clock.now += 0.1
    with pytest.raises(NoRoute):
        await up.router.create()
    up["only"].says = Health(False, "gone")
    with pytest.raises(NoRoute, match="unhealthy: gone"):
        await up.router.create()
    assert up["only"].asked == 2


async def test_silent_backends_are_asked_at_once_and_bounded_together(
    stage: Callable[..., Any], driver: Any
) -> None:
    bound = 0.4
    silent = [driver(f"silent{number}", says="hang") for number in range(20)]
    up = stage([*silent, driver("last")], tuning=RouterTuning(health_bound=bound))
    # One after the other they would take 20 times the bound.
    with anyio.fail_after(20 * bound):
        sandbox = await up.router.create()
    assert sandbox.route.taken == "last"
    assert up.created == ["last"]
    reasons = {one.reason for one in sandbox.route.candidates if one.name != "last"}
    assert reasons == {"unhealthy: no answer within 0.4 s"}


async def test_the_best_is_taken_without_waiting_for_the_others(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage(
        [driver("first"), driver("silent", says="hang")], tuning=RouterTuning(health_bound=600)
    )
    with anyio.fail_after(30):
        sandbox = await up.router.create()
    assert sandbox.route.taken == "first"
    assert sandbox.route.candidates[1].reason == "satisfies the request; not asked how it is"


async def test_who_is_excluded_by_the_request_is_not_asked(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage(
        [driver("weak", capabilities=Capability.NETWORK_POLICY), driver("off"), driver("able")],
        entries={"off": {"enabled": False}},
    )
    assert (await up.router.create(needs=Capability.STREAMING)).route.taken == "able"
    assert [up[name].asked for name in ("weak", "off", "able")] == [0, 0, 1]


async def test_an_open_circuit_is_not_asked(stage: Callable[..., Any], driver: Any) -> None:
    up = stage(
        [driver("first", script=[SandboxUnreachable("x")]), driver("second")],
        tuning=RouterTuning(failures_to_open=1, open_for=1000),
    )
    await up.router.create()
    asked = up["first"].asked
    up.clock.now += 500
    await up.router.create()
    assert up["first"].asked == asked


async def test_a_cancelled_asker_leaves_the_question_to_who_waits(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("only", says="hang")], tuning=RouterTuning(health_bound=600))
    taken: list[str | None] = []

    async def create() -> None:
        taken.append((await up.router.create()).route.taken)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            first = anyio.CancelScope()

            async def cancelled() -> None:
                with first:
                    await up.router.create()

            group.start_soon(cancelled)
            while up["only"].asked < 1:
                await anyio.lowlevel.checkpoint()
            group.start_soon(create)
            await anyio.wait_all_tasks_blocked()
            up["only"].says = Health(ok=True, detail="now")
            first.cancel()
    assert taken == ["only"]
    assert up["only"].asked == 2


async def test_a_broken_health_check_rejects_its_backend_and_no_other(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first", says=RuntimeError("bug")), driver("second")])
    sandbox = await up.router.create()
    assert sandbox.route.taken == "second"
    assert "RuntimeError: bug" in sandbox.route.candidates[1].reason


async def test_a_refused_credential_is_raised_and_not_hidden_by_the_next(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first", says=AuthError("E2B refused the key")), driver("second")])
    with pytest.raises(AuthError, match="refused the key"):
        await up.router.create()
    assert up.created == []
    assert "its credential does not do" in up.router.explain().candidates[0].reason


async def test_a_backend_that_is_registered_anew_has_said_nothing_yet(
    stage: Callable[..., Any], driver: Any
) -> None:
    from sandboxio.spi import DriverBackend

    up = stage([driver("only", says=Health(False, "ill"))])
    with pytest.raises(NoRoute):
        await up.router.create()
    fresh = driver("only")
    sandboxio.register(up.adapters["only"], lambda: DriverBackend(fresh))
    await up.router.create()
    assert fresh.asked == 1


async def test_examine_asks_everybody_in_question(stage: Callable[..., Any], driver: Any) -> None:
    up = stage([driver("first"), driver("second", says=Health(False, "ill")), driver("third")])
    decision = await up.router.examine(RouteRequest())
    assert [one.reason for one in decision.candidates] == [
        "healthy: on stage",
        "healthy: on stage",
        "unhealthy: ill",
    ]
    assert up.created == []
