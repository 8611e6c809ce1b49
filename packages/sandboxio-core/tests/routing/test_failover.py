"""What moves on to the next candidate, what does not, and what is left behind."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import sandboxio
from sandboxio.audit import AuditConfig, AuditEvent
from sandboxio.errors import (
    AuditSinkError,
    AuthError,
    CapabilityNotSupported,
    ConfigurationError,
    CreateTimeout,
    CreationError,
    DiskFull,
    NoRoute,
    ProviderError,
    RateLimitError,
    SandboxError,
    SandboxUnreachable,
)
from sandboxio.models import Capability, Health, IsolationTier, NetworkPolicy
from sandboxio.routing import Router, RouterTuning
from sandboxio.routing._failover import fails_over
from sandboxio.spi import DriverBackend

MOVE_ON = [
    CreateTimeout("too slow"),
    RateLimitError("throttled"),
    SandboxUnreachable("no daemon"),
    DiskFull("the disk of the engine is full", limit="disk"),
    CreationError("no capacity", retryable=True),
    ProviderError("503", retryable=True),
]
STOP = [
    ConfigurationError("bad image"),
    CapabilityNotSupported("no GPU"),
    AuthError("the key was refused"),
    CreationError("no such image", retryable=False),
    CreationError("something"),
    ProviderError("something"),
    AuditSinkError("the sink is full"),
]


def named(error: SandboxError) -> str:
    return f"{type(error).__name__}-{error.retryable}"


@pytest.mark.parametrize("error", MOVE_ON, ids=named)
async def test_a_failure_of_capacity_reach_or_provider_moves_on(
    error: SandboxError, stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first", script=[error]), driver("second")])
    sandbox = await up.router.create()
    assert up.created == ["first", "second"]
    decision = sandbox.route
    assert [(one.name, one.outcome) for one in decision.candidates] == [
        ("first", "failed"),
        ("second", "taken"),
    ]
    assert f"[{error.code}] {type(error).__name__}: {error.message}" in (
        decision.candidates[0].reason
    )


@pytest.mark.parametrize("error", STOP, ids=named)
async def test_what_has_to_be_repaired_is_raised_at_once(
    error: SandboxError, stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first", script=[error]), driver("second")])
    with pytest.raises(type(error)) as caught:
        await up.router.create()
    assert caught.value is error
    assert up.created == ["first"]
    assert any("The route was: class standard" in note for note in caught.value.__notes__)


def test_every_error_of_the_tree_is_judged_and_only_these_move_on() -> None:
    def tree(kind: type[SandboxError]) -> set[type[SandboxError]]:
        return {kind}.union(*(tree(child) for child in kind.__subclasses__()))

    def moves_on(kind: type[SandboxError], retryable: bool | None) -> bool:
        error = kind.__new__(kind)
        error.retryable = retryable
        return fails_over(error)

    kinds = [kind for kind in tree(SandboxError) if kind.__module__ == "sandboxio.errors"]
    always = {"CreateTimeout", "RateLimitError", "SandboxUnreachable", "DiskFull"}
    assert {kind.__name__ for kind in kinds if moves_on(kind, False)} == always
    assert {kind.__name__ for kind in kinds if moves_on(kind, None)} == always
    flagged = {kind.__name__ for kind in kinds if moves_on(kind, True)}
    assert flagged == {*always, "CreationError", "ProviderError"}


async def test_a_required_tier_is_no_reason_to_try_a_lower_one(
    stage: Callable[..., Any], driver: Any
) -> None:
    vm = driver("vm", isolation=IsolationTier.MICROVM, script=[SandboxUnreachable("down")] * 9)
    up = stage([vm, driver("container")])
    for required in (None, IsolationTier.CONTAINER, IsolationTier.MICROVM):
        with pytest.raises(NoRoute) as caught:
            await up.router.create(require_isolation=required)
        decision = caught.value.decision
        assert decision is not None
        assert decision.candidates[-1].reason == "its tier container is below microvm"
    assert "container" not in up.created


async def test_a_tier_that_fell_after_the_decision_is_refused_by_the_backend(
    stage: Callable[..., Any], driver: Any
) -> None:
    falling = driver("vm", isolation=IsolationTier.MICROVM)
    up = stage([falling, driver("other", isolation=IsolationTier.MICROVM)])
    create = DriverBackend.create
    fallen: list[object] = []

    class Falling(DriverBackend):
        async def create(self, **arguments: Any) -> Any:  # type: ignore[override]
            falling.isolation = IsolationTier.CONTAINER
            fallen.append(arguments["require_isolation"])
            return await create(self, **arguments)

    backend = Falling(falling)
    sandboxio.register(up.adapters["vm"], lambda: backend)
    with pytest.raises(ConfigurationError, match="'microvm' is required"):
        await up.router.create()
    assert fallen == [IsolationTier.MICROVM]
    assert up.created == []


async def test_a_pinned_backend_is_the_only_one(stage: Callable[..., Any], driver: Any) -> None:
    down = SandboxUnreachable("down")
    up = stage([driver("first"), driver("second", script=[down], says=Health(False, "ill"))])
    with pytest.raises(SandboxUnreachable) as caught:
        await up.router.create(backend="second")
    assert caught.value is down
    assert (await up.router.create(backend="second")).route.pinned
    assert up.created == ["second", "second"]
    assert up["second"].asked == 0
    with pytest.raises(ConfigurationError, match="no backend 'third'"):
        await up.router.create(backend="third")


async def test_a_disabled_entry_cannot_be_pinned(stage: Callable[..., Any], driver: Any) -> None:
    up = stage([driver("on"), driver("off")], entries={"off": {"enabled": False}})
    with pytest.raises(ConfigurationError, match="disabled"):
        await up.router.create(backend="off")
    assert up.created == []


async def test_a_refused_policy_stops_before_any_backend_is_asked(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first"), driver("second")], policy={"network": {"egress": "deny"}})
    with pytest.raises(ConfigurationError, match=r"policy allows network\.egress"):
        await up.router.create(network=NetworkPolicy(egress="allow"))
    assert (up.created, up["first"].asked) == ([], 0)


async def test_a_lost_create_is_reaped_before_the_next_candidate_is_tried(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first", script=["lost"]), driver("second")])
    sandbox = await up.router.create()
    assert up.log == [("create", "first"), ("destroy", "first"), ("create", "second")]
    assert up["first"].live == {}
    ghost = up["first"].requests[0].name
    assert f"Remains: nothing is left of {ghost}, which is confirmed." in (
        sandbox.route.candidates[0].reason
    )


async def test_remains_that_cannot_be_confirmed_are_said(
    stage: Callable[..., Any], driver: Any
) -> None:
    first = driver("first", script=["lost"], destroy_error=SandboxUnreachable("still down"))
    up = stage([first, driver("second")])
    sandbox = await up.router.create()
    assert sandbox.route.taken == "second"
    reason = sandbox.route.candidates[0].reason
    assert "it is not confirmed that nothing is left of" in reason
    assert reason.endswith("SandboxUnreachable.")


async def test_when_nothing_is_left_every_candidate_says_why(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage(
        [
            driver("throttled", script=[RateLimitError("slow down")]),
            driver("down", says=SandboxUnreachable("connection refused")),
            driver("ill", says=Health(False, "no cgroups", "mount them")),
            driver("off"),
            driver("far"),
            driver("weak", capabilities=Capability.NETWORK_POLICY),
        ],
        entries={"off": {"enabled": False}, "far": {"regions": ["us"]}},
    )
    with pytest.raises(NoRoute) as caught:
        await up.router.create(region="eu", needs=Capability.STREAMING)
    error = caught.value
    assert error.decision is not None
    reasons = {one.name: one.reason for one in error.decision.candidates}
    assert reasons.pop("throttled").startswith("[SBX_E1502] RateLimitError: slow down")
    assert reasons == {
        "down": "unhealthy: connection refused (Check that the backend is running: sandboxio doctor)",
        "ill": "unhealthy: no cgroups (mount them)",
        "off": "disabled in the routing file",
        "far": "is in us, not in eu",
        "weak": "lacks STREAMING",
    }
    assert all(reason in error.message for reason in reasons.values())
    assert isinstance(error.__cause__, RateLimitError)
    assert error.code == "SBX_E1003"
    assert isinstance(error, ConfigurationError)
    assert error.retryable is True


async def test_a_hanging_create_is_bounded_while_another_could_take_over(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage(
        [driver("first", script=["hang"]), driver("second")],
        tuning=RouterTuning(attempt_bound=0.05),
    )
    with anyio.fail_after(30):
        sandbox = await up.router.create(timeout=1000)
    assert sandbox.route.taken == "second"
    assert up["first"].live == {}
    assert "had no sandbox ready within 0.05 s" in sandbox.route.candidates[0].reason
    assert up["second"].requests[0].timeout == 1000


async def test_the_last_candidate_has_what_is_left_of_the_timeout(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("only", script=["hang"])], tuning=RouterTuning(attempt_bound=0.01))
    with anyio.fail_after(30), pytest.raises(NoRoute, match=r"ready within 0\.3 s"):
        await up.router.create(timeout=0.3)


async def test_no_candidate_is_started_after_the_time_is_over(
    stage: Callable[..., Any], driver: Any
) -> None:
    first = driver("first")
    up = stage([first, driver("second")])

    async def slow(_request: object) -> object:
        up.clock.now += 61
        raise SandboxUnreachable("down")

    first.provision = slow
    with pytest.raises(CreateTimeout, match=r"within 60 s in all; second was not tried") as caught:
        await up.router.create(timeout=60)
    assert isinstance(caught.value.__cause__, SandboxUnreachable)
    assert up.created == []


async def test_cancelling_a_create_tries_nothing_else_and_leaves_nothing(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first", script=["hang"]), driver("second")])
    async with anyio.create_task_group() as group:
        group.start_soon(up.router.create)
        with anyio.fail_after(30):
            while not up["first"].live:
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert up.created == ["first"]
    assert up["first"].live == {}
    assert up.router.status()[0].failures == 0


async def test_half_opening_is_given_back_by_a_cancelled_create(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage(
        [driver("only", script=[SandboxUnreachable("x"), "hang"])],
        tuning=RouterTuning(failures_to_open=1),
    )
    with pytest.raises(NoRoute):
        await up.router.create()
    up.clock.now += 30
    async with anyio.create_task_group() as group:
        group.start_soon(up.router.create)
        with anyio.fail_after(30):
            while not up["only"].live:
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert (await up.router.create()).route.taken == "only"


async def test_nothing_fails_over_once_there_is_a_sandbox(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("first"), driver("second")])
    async with await up.router.create() as sandbox:
        with pytest.raises(SandboxError):
            await sandbox.run(["true"])  # a stage runs nothing: the command fails
    assert up.created == ["first"]


async def test_the_decision_is_on_the_sandbox_and_in_the_audit_event(
    stage: Callable[..., Any], driver: Any
) -> None:
    events: list[AuditEvent] = []

    class Keep:
        async def emit(self, event: AuditEvent) -> None:
            events.append(event)

    first, second = driver("first", script=[SandboxUnreachable("down")]), driver("second")
    up = stage([first, second])
    for name, kept in up.drivers.items():
        backend = DriverBackend(kept, audit=AuditConfig(sinks=(Keep(),)))
        sandboxio.register(up.adapters[name], lambda backend=backend: backend)
    async with await up.router.create(labels={"tool": "x"}) as sandbox:
        assert sandbox.route.taken == "second"
    created = [event for event in events if event.event == "create"]
    assert [event.backend for event in created] == ["first", "second"]
    routing: Any = created[1].routing
    assert routing == sandbox.route.as_dict()
    assert (routing["taken"], routing["labels"]) == ("second", {"tool": "x"})
    assert [one["outcome"] for one in routing["candidates"]] == ["failed", "taken"]


async def test_a_create_without_a_router_has_no_route(driver: Any) -> None:
    assert (await DriverBackend(driver("plain")).create()).route is None


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_failover_never_lowers_the_tier_and_never_widens_egress(
    loop: str, stage: Callable[..., Any], driver: Any, basic: Capability
) -> None:
    """Random files, requests and failures; what each backend was really asked for is looked at."""
    tiers = [IsolationTier.CONTAINER, IsolationTier.GVISOR, IsolationTier.MICROVM]
    failures = [SandboxUnreachable("x"), RateLimitError("x"), "lost", None, None]
    hosts = ["a.example", "b.example", "10.0.0.0/8", "10.1.0.0/16"]
    taken = 0
    for seed in range(120):
        rng = random.Random(seed)
        drivers = [
            driver(
                f"d{number}",
                isolation=rng.choice(tiers),
                capabilities=basic | rng.choice([Capability(0), Capability.NETWORK_ALLOWLIST]),
                script=[rng.choice(failures) for _ in range(3)],
            )
            for number in range(rng.randint(1, 5))
        ]
        ceiling = {
            "egress": rng.choice(["deny", "allow"]),
            "allow": rng.sample(hosts, rng.randint(0, 2)),
        }
        up = stage(
            drivers,
            entries={one.name: {"priority": rng.randint(0, 2)} for one in drivers},
            policy={"network": ceiling},
        )
        asked = rng.choice(
            [
                None,
                NetworkPolicy(),
                NetworkPolicy(egress="allow"),
                NetworkPolicy(allow=tuple(rng.sample(hosts, 1))),
            ]
        )
        required = rng.choice([None, *tiers])
        floor = max(
            tiers.index(drivers[0].isolation), -1 if required is None else tiers.index(required)
        )

        async def once(up: Any = up, asked: Any = asked, required: Any = required) -> bool:
            try:
                await up.router.create(network=asked, require_isolation=required)
            except (NoRoute, ConfigurationError):
                return False
            return True

        taken += anyio.run(once, backend=loop)
        expected = (
            NetworkPolicy(**{**ceiling, "allow": tuple(ceiling["allow"])})
            if asked is None
            else asked
        )
        for one in drivers:
            for request in one.requests:
                assert request.network == expected
                assert tiers.index(one.isolation) >= floor
                if ceiling["egress"] == "deny":
                    assert request.network.egress == "deny"
                    assert set(request.network.allow) <= {
                        *ceiling["allow"],
                        *(["10.1.0.0/16"] if "10.0.0.0/8" in ceiling["allow"] else []),
                    }
            assert len(one.live) <= 1
        assert sum(len(one.live) for one in drivers) <= 1
    assert taken > 20  # or the property would be proven on refusals alone


@pytest.mark.parametrize(
    "wrong",
    [
        {"needs": "STREAMING"},
        {"require_isolation": "microvm"},
        {"require_isolation": IsolationTier.UNKNOWN},
        {"region": ""},
        {"backend": 3},
        {"labels": ["tool"]},
        {"labels": {"tool": 1}},
        {"network": "deny"},
        {"resources": {"cpu": 1}},
        {"timeout": "60"},
        {"timeout": math.inf},
    ],
    ids=str,
)
async def test_a_bad_request_is_refused_before_anything_is_asked(
    wrong: dict[str, object], stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("only")])
    with pytest.raises(ConfigurationError) as caught:
        await up.router.create(**wrong)
    assert not isinstance(caught.value, NoRoute)
    assert (up.created, up["only"].asked) == ([], 0)


async def test_a_route_is_a_target_of_create(stage: Callable[..., Any], driver: Any) -> None:
    up = stage(
        [driver("a"), driver("b", isolation=IsolationTier.GVISOR)],
        isolation_classes={"one": {"backend": "a"}, "two": {"backend": "b"}},
        default_class="one",
        routes=[{"match": {"tool": "run_python", "tier": "big"}, "class": "two"}],
        policy={"limits": {"timeout_s": 77, "memory_mb": 100}, "network": {"allow": []}},
    )
    route = up.router.route_for(tool="run_python", tier="big")
    sandbox: Any = await sandboxio.create(route, metadata={"tenant_id": "t"})
    assert (sandbox.route.taken, sandbox.route.class_name) == ("b", "two")
    request = up["b"].requests[0]
    assert (request.timeout, request.metadata) == (77, {"tenant_id": "t"})
    assert request.resources.memory_mb == 100
    assert (await sandboxio.create(up.router.route_for(tool="other"))).route.taken == "a"  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(NoRoute):
        await sandboxio.create(route, require_isolation=IsolationTier.MICROVM)
    with pytest.raises(ConfigurationError, match="timeout_s"):
        await sandboxio.create(route, timeout=78)
    with pytest.raises(ConfigurationError, match="must be a DSN"):
        await sandboxio.create(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_route_is_a_target_of_the_sync_facade(stage: Callable[..., Any], driver: Any) -> None:
    up = stage([driver("a")], policy={"network": {"egress": "allow"}})
    with sandboxio.create_sync(up.router.route_for(tool="x")) as sandbox:
        assert sandbox.id in up["a"].live
    assert up["a"].requests[0].network.egress == "allow"
    with sandboxio.create_sync(up.router.route_for(), network=NetworkPolicy()):
        assert up["a"].requests[1].network.egress == "deny"


async def test_an_explicit_deny_is_never_widened_by_the_file(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("a")], policy={"network": {"egress": "allow"}})
    route = up.router.route_for()
    for network, egress in ((None, "allow"), (NetworkPolicy(), "deny")):
        await up.router.create(network=network)
        assert up["a"].requests[-1].network.egress == egress
    await sandboxio.create(route)
    assert up["a"].requests[-1].network.egress == "allow"
    await sandboxio.create(route, network=NetworkPolicy())
    assert up["a"].requests[-1].network.egress == "deny"


def test_explain_creates_and_asks_nothing(stage: Callable[..., Any], driver: Any) -> None:
    up = stage([driver("a"), driver("b", capabilities=Capability.NETWORK_POLICY)])
    decision = up.router.explain(needs=Capability.STREAMING, tool="x")
    assert (decision.taken, decision.labels) == ("a", {"tool": "x"})
    assert (up.log, up["a"].asked) == ([], 0)
    text = str(decision)
    assert "-> a  taken" in text
    assert "x b  rejected  lacks STREAMING" in text


async def test_explain_shows_what_is_known_of_health(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("a", says=Health(False, "ill")), driver("b")])
    await up.router.create()
    decision = up.router.explain()
    assert decision.taken == "b"
    assert decision.candidates[1].reason == "unhealthy: ill"
    up.clock.now += 60
    assert up.router.explain().taken == "a"


class Foreign:
    """A backend that implements the ports by itself, on top of nothing of sandboxio."""

    name = "foreign"
    capabilities = Capability.NETWORK_POLICY
    isolation = IsolationTier.CONTAINER

    def __init__(self, inner: DriverBackend, *, hangs: bool = False) -> None:
        self.inner = inner
        self.hangs = hangs

    async def create(self, **arguments: Any) -> Any:
        if self.hangs:
            await anyio.sleep_forever()
        made = await self.inner.create(**arguments)

        class Mine:
            def __init__(self) -> None:
                self.id = made.id
                self.native = made

            async def __aenter__(self) -> Mine:
                return self

            async def __aexit__(self, *error: object) -> None:
                await made.kill()

        return Mine()

    async def connect(self, sandbox_id: str) -> Any:
        raise NotImplementedError


async def test_a_backend_without_the_engine_is_bounded_and_its_sandbox_knows_its_route(
    stage: Callable[..., Any], driver: Any
) -> None:
    up = stage([driver("slow"), driver("other")], tuning=RouterTuning(attempt_bound=0.05))
    sandboxio.register(up.adapters["slow"], lambda: Foreign(DriverBackend(up["slow"]), hangs=True))
    sandboxio.register(up.adapters["other"], lambda: Foreign(DriverBackend(up["other"])))
    with anyio.fail_after(30):
        sandbox = await up.router.create()
    assert "had no sandbox ready in 0.05 s" in sandbox.route.candidates[0].reason
    assert sandbox.route.taken == "other"
    assert "it has no health check" in sandbox.route.candidates[1].reason
    assert sandbox.id in up["other"].live
    async with sandbox as entered:
        assert entered.route is sandbox.route
    assert up["other"].live == {}


def test_the_default_router_prefers_docker_and_falls_back_to_local() -> None:
    decision = Router.default().explain()
    assert [one.name for one in sorted(decision.candidates, key=lambda one: one.name)] == [
        "docker",
        "local",
    ]
    assert decision.require_isolation is IsolationTier.CONTAINER
