"""Creating: refused before anything exists, or whole, or nothing is left of it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from sandboxio.errors import (
    CapabilityNotSupported,
    ConfigurationError,
    ConnectError,
    CreateTimeout,
    CreationError,
    OrphanedSandboxWarning,
    ProviderError,
    SandboxError,
    SandboxGone,
    UnverifiedIsolationWarning,
)
from sandboxio.models import Capability, Health, IsolationTier, NetworkPolicy, Resources
from sandboxio.spi import DriverBackend

Act = Callable[[], Awaitable[Any]]
Fail = Callable[[BaseException], Act]

BOUND = 30
"""Seconds for what takes a fraction of one; the machine may be busy."""

NAN, INF = float("nan"), float("inf")

WRONG_TIMEOUTS: list[Any] = [0, -1, 0.0, NAN, INF, -INF, None, True, False, "60", b"1", [], 10**9]


@pytest.mark.parametrize("timeout", WRONG_TIMEOUTS)
async def test_timeout_that_bounds_nothing_is_refused(
    backend: DriverBackend, driver: Any, timeout: Any
) -> None:
    with pytest.raises(ConfigurationError, match="timeout"):
        await backend.create(timeout=timeout)
    assert driver.calls == []


REFUSED: list[dict[str, Any]] = [
    {"template": ""},
    {"template": 1},
    {"template": "a\0b"},
    {"template": "\ud800"},
    {"env": []},
    {"env": {"": "x"}},
    {"env": {"A=B": "x"}},
    {"env": {"A\0": "x"}},
    {"env": {1: "x"}},
    {"env": {"A": 1}},
    {"env": {"A": None}},
    {"env": {"A": "x\0"}},
    {"env": {"A": "\ud800"}},
    {"secrets": {"": "x"}},
    {"secrets": {"A": b"x"}},
    {"metadata": {"": "x"}},
    {"metadata": {"a": 1}},
    {"metadata": "a"},
    {"network": None},
    {"network": "deny"},
    {"network": NetworkPolicy(egress="all")},  # pyright: ignore[reportArgumentType]
    {"network": NetworkPolicy(allow="host")},  # pyright: ignore[reportArgumentType]
    {"network": NetworkPolicy(allow=(1,))},  # pyright: ignore[reportArgumentType]
    {"network": NetworkPolicy(ingress_ports=(True,))},
    {"resources": None},
    {"resources": Resources(cpu=0)},
    {"resources": Resources(cpu=-1)},
    {"resources": Resources(cpu=NAN)},
    {"resources": Resources(cpu=INF)},
    {"resources": Resources(cpu=True)},
    {"resources": Resources(cpu="1")},  # pyright: ignore[reportArgumentType]
    {"resources": Resources(memory_mb=0)},
    {"resources": Resources(memory_mb=1.5)},  # pyright: ignore[reportArgumentType]
    {"resources": Resources(processes=-5)},
    {"require_isolation": IsolationTier.UNKNOWN},
    {"require_isolation": IsolationTier.MICROVM},
    {"require_isolation": "container"},
]


@pytest.mark.parametrize("arguments", REFUSED, ids=repr)
async def test_bad_argument_is_refused_before_anything_exists(
    backend: DriverBackend, driver: Any, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await backend.create(**arguments)
    assert driver.calls == []
    assert driver.requests == []
    assert next(iter(arguments)).split("_")[0] in str(caught.value).lower().replace(
        "networkpolicy", "network"
    ) or "egress" in str(caught.value)


UNSUPPORTED: list[tuple[dict[str, Any], Capability | None]] = [
    ({"network": NetworkPolicy(egress="learn")}, Capability.NETWORK_POLICY),
    ({"network": NetworkPolicy(allow=("example.com",))}, Capability.NETWORK_ALLOWLIST),
    ({"network": NetworkPolicy(ingress_ports=(80,))}, Capability.TUNNELS),
    ({"resources": Resources(gpu="T4")}, Capability.GPU),
    ({"resources": Resources(disk_mb=10)}, None),
]


@pytest.mark.parametrize(("arguments", "capability"), UNSUPPORTED, ids=repr)
async def test_what_the_backend_cannot_do_is_refused_before_anything_exists(
    backend: DriverBackend, driver: Any, arguments: dict[str, Any], capability: Capability | None
) -> None:
    with pytest.raises(CapabilityNotSupported) as caught:
        await backend.create(**arguments)
    assert caught.value.capability == capability
    assert driver.requests == []


@pytest.mark.parametrize(
    "resources",
    [Resources(cpu=1), Resources(memory_mb=1), Resources(disk_mb=1), Resources(processes=1)],
    ids=repr,
)
async def test_caps_of_a_template_are_a_matter_of_where_to_set_them(
    backend: DriverBackend, driver: Any, resources: Resources
) -> None:
    driver.default_resources = Resources()
    driver.resources_hint = "Build a template with what you need."
    with pytest.raises(ConfigurationError) as caught:
        await backend.create(resources=resources)
    assert "template" in caught.value.hint
    assert driver.requests == []


async def test_backend_without_a_network_policy_creates_nothing(
    backend: DriverBackend, driver: Any
) -> None:
    driver.capabilities &= ~Capability.NETWORK_POLICY
    for network in (NetworkPolicy(), NetworkPolicy(egress="allow")):
        with pytest.raises(CapabilityNotSupported):
            await backend.create(network=network)
    assert driver.requests == []


async def test_request_is_complete_and_named_before_it_is_made(
    backend: DriverBackend, driver: Any
) -> None:
    sandbox = await backend.create(
        env={"A": "1"}, secrets={"S": "secret-1"}, metadata={"t": "1"}, timeout=60,
        resources=Resources(memory_mb=128),
    )  # fmt: skip
    (request,) = driver.requests
    assert request.name.startswith("sbx-")
    assert len(request.name) == 20
    assert request.env == {"A": "1", "S": "secret-1"}
    assert request.secret_names == {"S"}
    assert request.resources == Resources(cpu=1, memory_mb=128, processes=64)
    assert (request.timeout, request.metadata) == (60, {"t": "1"})
    assert "secret-1" not in repr(request)
    await sandbox.kill()


async def test_unverified_isolation_is_warned_of_once(backend: DriverBackend, driver: Any) -> None:
    driver.isolation = IsolationTier.UNKNOWN
    with pytest.warns(UnverifiedIsolationWarning):
        await (await backend.create()).kill()
    await (await backend.create()).kill()
    with pytest.raises(ConfigurationError, match="'container' is required"):
        await backend.create(require_isolation=IsolationTier.CONTAINER)


@pytest.mark.parametrize("step", ["before", "created", "ready"])
async def test_create_cancelled_at_any_step_leaves_nothing(
    backend: DriverBackend, driver: Any, hang: Act, step: str
) -> None:
    driver.acts[step] = hang
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(backend.create)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert driver.calls[-1] == "destroy"
    assert not driver.there
    assert not backend.open_sandboxes


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("times", [2, 4])
async def test_create_cancelled_natively_and_often_leaves_nothing(
    backend: DriverBackend, driver: Any, hang: Act, times: int
) -> None:
    driver.acts["created"] = hang
    task = asyncio.ensure_future(backend.create())
    await anyio.wait_all_tasks_blocked()

    async def slow() -> None:
        for _ in range(10):
            await anyio.sleep(0.01)

    driver.acts["destroy"] = slow
    for _ in range(times):
        task.cancel()
        await anyio.sleep(0.015)
    with anyio.fail_after(BOUND), pytest.raises(asyncio.CancelledError):
        await task
    assert not driver.there


@pytest.mark.parametrize("step", ["before", "created", "ready"])
async def test_create_that_is_late_is_a_timeout_and_leaves_nothing(
    backend: DriverBackend, driver: Any, hang: Act, step: str
) -> None:
    driver.acts[step] = hang
    with anyio.fail_after(BOUND), pytest.raises(CreateTimeout, match=r"within 0\.05 s") as caught:
        await backend.create(timeout=0.05)
    assert caught.value.retryable
    assert not driver.there


RAW: list[Exception] = [
    RuntimeError("boom"),
    TimeoutError("the SDK's own"),
    OSError(111, "refused"),
    KeyError("key"),
    ExceptionGroup("many", [ValueError("one")]),
]


@pytest.mark.parametrize("error", RAW, ids=repr)
async def test_raw_error_of_a_create_is_wrapped_and_leaves_nothing(
    backend: DriverBackend, driver: Any, fail: Fail, error: Exception
) -> None:
    driver.acts["created"] = fail(error)
    with pytest.raises(CreationError) as caught:
        await backend.create()
    assert caught.value.__cause__ is error
    assert type(error).__name__ in caught.value.message
    assert not isinstance(caught.value, CreateTimeout)
    assert not driver.there


async def test_error_of_ours_passes_as_it_is(
    backend: DriverBackend, driver: Any, fail: Fail
) -> None:
    error = CreationError("no such image", hint="pull it")
    driver.acts["created"] = fail(error)
    with pytest.raises(CreationError) as caught:
        await backend.create()
    assert caught.value is error
    assert not driver.there


async def test_remains_that_are_not_confirmed_to_be_gone_are_warned_of(
    backend: DriverBackend, driver: Any, hang: Act, fail: Fail, short_grace: None
) -> None:
    driver.acts.update(created=fail(RuntimeError("boom")), destroy=hang)
    with pytest.warns(OrphanedSandboxWarning) as caught, pytest.raises(CreationError) as raised:
        await backend.create(secrets={"S": "canary-secret"}, metadata={"note": "canary-secret"})
    text = str(caught[0].message)
    assert driver.requests[0].name in text
    assert "canary-secret" not in text
    assert "not confirmed" in "".join(raised.value.__notes__)


async def test_remains_of_a_cancelled_create_are_warned_of_too(
    backend: DriverBackend, driver: Any, hang: Act, short_grace: None
) -> None:
    driver.acts.update(created=hang, destroy=hang)

    async def cancelled() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(backend.create)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()

    with pytest.warns(OrphanedSandboxWarning, match="given up"):
        await cancelled()


async def test_sandbox_whose_facts_cannot_be_read_is_not_left_behind(
    backend: DriverBackend, driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def without_policy(request: Any) -> Any:
        sandbox = await type(driver).provision(driver, request)
        del sandbox.policy
        return sandbox

    monkeypatch.setattr(driver, "provision", without_policy)
    with pytest.raises(AttributeError):
        await backend.create()
    assert not driver.there


# ----- errors of a sandbox that is there


@pytest.mark.parametrize("error", RAW, ids=repr)
@pytest.mark.parametrize("call", ["run", "ls", "read", "write"])
async def test_raw_error_of_a_call_is_wrapped_with_its_cause(
    backend: DriverBackend, driver: Any, fail: Fail, error: Exception, call: str
) -> None:
    sandbox = await backend.create()
    script = driver.sandboxes[-1]
    script.acts["start" if call == "run" else call] = fail(error)
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "run": lambda: sandbox.run(["x"]),
        "ls": sandbox.files.ls,
        "read": lambda: sandbox.files.read("f"),
        "write": lambda: sandbox.files.write("f", ""),
    }
    with pytest.raises(ProviderError) as caught:
        await calls[call]()
    assert caught.value.__cause__ is error
    assert type(error).__name__ in caught.value.message
    await sandbox.kill()


async def test_failure_of_what_no_longer_exists_is_gone_and_no_timeout(
    backend: DriverBackend, driver: Any, fail: Fail
) -> None:
    sandbox = await backend.create()
    cause = TimeoutError("the SDK's own")
    driver.sandboxes[-1].acts["start"] = fail(cause)
    driver.there.clear()
    with pytest.raises(SandboxGone) as caught:
        await sandbox.run(["x"])
    assert caught.value.__cause__ is cause
    await sandbox.kill()


@pytest.mark.parametrize("alive", ["hangs", "fails"])
async def test_failure_whose_sandbox_cannot_be_asked_stays_what_it_is(
    backend: DriverBackend, driver: Any, hang: Act, fail: Fail, alive: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("sandboxio._engine.boundary.ALIVE_BOUND", 0.05)
    sandbox = await backend.create()
    acts = driver.sandboxes[-1].acts
    acts["start"] = fail(RuntimeError("boom"))
    acts["alive"] = hang if alive == "hangs" else fail(OSError())
    with anyio.fail_after(BOUND), pytest.raises(ProviderError, match="boom"):
        await sandbox.run(["x"])
    acts.clear()
    await sandbox.kill()


async def test_secret_is_in_no_part_of_an_error(
    backend: DriverBackend, driver: Any, fail: Fail
) -> None:
    canary = "canary-0123456789"
    sandbox = await backend.create(secrets={"KEY": canary})
    script = driver.sandboxes[-1]
    for error in (
        RuntimeError(f"request with {canary} failed"),
        OSError(2, "no", f"/x/{canary}"),
        ProviderError(f"m {canary}", hint=f"h {canary}"),
    ):
        error.add_note(f"note {canary}")
        script.acts["start"] = fail(error)
        with pytest.raises(SandboxError) as caught:
            await sandbox.run(["x", canary], env={"A": canary})
        told = "".join(traceback.format_exception(caught.value))
        assert canary not in told + repr(caught.value) + str(vars(caught.value))
    assert canary not in repr(sandbox) + repr(sandbox.files) + repr(backend)
    await sandbox.kill()


async def test_representations_are_short(backend: DriverBackend) -> None:
    sandbox = await backend.create()
    async with sandbox.stream(["x"]) as process:
        for thing in (backend, sandbox, sandbox.files, process):
            assert len(repr(thing)) < 200
    await sandbox.kill()
    assert "killed" in repr(sandbox)


# ----- management


async def test_connect_to_nothing_is_an_error(backend: DriverBackend) -> None:
    with pytest.raises(ConnectError):
        await backend.connect("sbx-none")
    for wrong in ("", "  "):
        with pytest.raises(ConnectError, match="empty"):
            await backend.connect(wrong)
    others: list[Any] = [None, 1, b"x", "a\0"]
    for other in others:
        with pytest.raises(ConfigurationError):
            await backend.connect(other)


async def test_kill_managed_says_whether_there_was_one(backend: DriverBackend, driver: Any) -> None:
    sandbox = await backend.create()
    assert [one.sandbox_id for one in await backend.list_managed()] == [sandbox.id]
    assert await backend.kill_managed(sandbox.id)
    assert not await backend.kill_managed(sandbox.id)
    assert not backend.open_sandboxes


async def test_management_calls_that_fail_or_hang_are_connect_errors(
    backend: DriverBackend, driver: Any, hang: Act, fail: Fail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandboxio._engine.backend.MANAGEMENT_BOUND", 0.05)
    monkeypatch.setattr("sandboxio._engine.backend.CONNECT_BOUND", 0.05)
    for act in (hang, fail(OSError("down")), fail(TimeoutError())):
        driver.acts.update(attach=act, list=act, destroy=act)
        with anyio.fail_after(BOUND):
            for call in (backend.connect("x"), backend.list_managed(), backend.kill_managed("x")):
                with pytest.raises(ConnectError):
                    await call


async def test_health_that_does_not_come_is_bad_health(
    backend: DriverBackend, driver: Any, hang: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await backend.health() == Health(ok=True, detail="scripted")
    monkeypatch.setattr("sandboxio._engine.backend.HEALTH_BOUND", 0.05)
    driver.acts["health"] = hang
    with anyio.fail_after(BOUND):
        health = await backend.health()
    assert not health.ok
