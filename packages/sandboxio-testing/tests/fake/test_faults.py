"""The provider misbehaves on demand, and every error of the catalog can be provoked."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import sandboxio
from sandboxio import (
    Capability,
    ConnectError,
    CreationError,
    ExecResult,
    OrphanedSandboxWarning,
    Resources,
    SandboxUnreachable,
    UnverifiedIsolationWarning,
    errors,
)
from sandboxio.audit import AuditConfig, AuditEvent
from sandboxio.models import IsolationTier
from sandboxio.routing import Router
from sandboxio_testing import FakeBackend, offline

Provoke = Callable[[FakeBackend], Awaitable[object]]


async def _run(fake: FakeBackend, command: str = "echo hi", timeout: float | None = None) -> object:
    async with await fake.create(resources=Resources(memory_mb=16, disk_mb=1)) as sandbox:
        return await sandbox.run(command, timeout=timeout)


async def _simulated(fake: FakeBackend, **faults: Any) -> object:
    async with await fake.create() as sandbox:
        fake.simulate(**faults)
        try:
            return await sandbox.run("echo hi")
        finally:
            fake.simulate()


async def _configuration(fake: FakeBackend) -> object:
    return await fake.create(timeout=-1)


async def _not_found(fake: FakeBackend) -> object:
    return await sandboxio.create("nosuchbackend://")


async def _not_installed(fake: FakeBackend) -> object:
    with offline(fake, missing=["e2b"]):
        return await sandboxio.create("e2b://")


async def _no_route(fake: FakeBackend) -> object:
    fake.simulate(unreachable=True)
    with offline(fake):
        router = Router.from_dict(
            {
                "backends": {"only": {"adapter": "fake"}},
                "isolation_classes": {"standard": {"backend": "only"}},
                "default_class": "standard",
            }
        )
        return await router.create(needs=Capability.GPU)


async def _capability(fake: FakeBackend) -> object:
    return await fake.create(resources=Resources(gpu="T4"))


async def _creation(fake: FakeBackend) -> object:
    fake.simulate(create_fails=RuntimeError("no capacity"))
    return await fake.create()


async def _connect(fake: FakeBackend) -> object:
    return await fake.connect("fake-9999")


async def _create_timeout(fake: FakeBackend) -> object:
    fake.simulate(create_takes=3600)
    return await fake.create(timeout=10)


async def _gone(fake: FakeBackend) -> object:
    sandbox = fake.sandbox
    fake.expire(sandbox.id)
    return await sandbox.run("echo hi")


async def _execution(fake: FakeBackend) -> object:
    fake.on_run(match="x", returns=ExecResult(1, "", "no"))
    return (await fake.sandbox.run("x")).raise_for_status()


async def _files(fake: FakeBackend) -> object:
    return await fake.sandbox.files.read("/etc")


async def _path(fake: FakeBackend) -> object:
    return await fake.sandbox.files.read("missing")


async def _audit(fake: FakeBackend) -> object:
    class Broken:
        async def emit(self, event: AuditEvent) -> None:
            if event.event == "create":
                raise OSError("the disk of the sink is full")

    audited = FakeBackend(audit=AuditConfig(sinks=(Broken(),), on_sink_failure="fail"))
    return await audited.create()


PROVOKED: dict[type[errors.SandboxError], Provoke] = {
    errors.AuditSinkError: _audit,
    errors.AuthError: lambda fake: _simulated(fake, auth_missing=True),
    errors.BackendNotFound: _not_found,
    errors.BackendNotInstalled: _not_installed,
    errors.CapabilityNotSupported: _capability,
    errors.ConfigurationError: _configuration,
    errors.ConnectError: _connect,
    errors.CreateTimeout: _create_timeout,
    errors.CreationError: _creation,
    errors.DiskFull: lambda fake: _run(fake, "head -c 9m /dev/zero > big"),
    errors.ExecutionError: _execution,
    errors.ExecutionTimeout: lambda fake: _run(fake, "sleep 100", 1),
    errors.FileSystemError: _files,
    errors.NetworkPolicyViolation: lambda fake: _simulated(fake, egress_violation=True),
    errors.NoRoute: _no_route,
    errors.OutOfMemory: lambda fake: _run(fake, "head -c 99m /dev/zero | tail -n 1"),
    errors.OutputLimitExceeded: lambda fake: _simulated(fake, output_flood=True),
    errors.PathNotFound: _path,
    errors.ProcessLimitExceeded: lambda fake: _simulated(fake, process_limit=True),
    errors.ProviderError: lambda fake: _simulated(fake, run_fails=RuntimeError("HTTP 500")),
    errors.RateLimitError: lambda fake: _simulated(fake, rate_limited=30),
    errors.SandboxCorrupted: lambda fake: _simulated(fake, corrupted=True),
    errors.SandboxGone: _gone,
    errors.SandboxUnreachable: lambda fake: _simulated(fake, unreachable=True),
}

BASES = {errors.SandboxError, errors.SandboxTimeout, errors.ResourceLimitExceeded}
"""Raised as one of their subclasses only."""


def catalog() -> set[type[errors.SandboxError]]:
    """Every error class of the catalog."""
    found = {errors.SandboxError}
    todo = [errors.SandboxError]
    while todo:
        for kind in todo.pop().__subclasses__():
            if kind.__module__ == errors.__name__ and kind not in found:
                found.add(kind)
                todo.append(kind)
    return found


def test_every_error_of_the_catalog_has_its_way_to_be_provoked() -> None:
    assert catalog() - BASES == set(PROVOKED)


@pytest.mark.parametrize("kind", PROVOKED, ids=lambda kind: kind.__name__)
async def test_error_is_provoked_through_the_public_api(
    kind: type[errors.SandboxError], sbx_fake: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_MAX_OUTPUT_MB", "1")
    with pytest.raises(kind) as caught:
        await PROVOKED[kind](sbx_fake)
    assert type(caught.value) is kind
    assert caught.value.code == kind.code
    assert caught.value.hint


async def test_missing_credential_is_named(sbx_fake: FakeBackend) -> None:
    sbx_fake.simulate(auth_missing=True)
    with pytest.raises(errors.AuthError, match="SBX_FAKE_TOKEN"):
        await sbx_fake.create()
    assert not (await sbx_fake.health()).ok
    sbx_fake.simulate()
    assert (await sbx_fake.health()).ok


async def test_failed_create_keeps_its_cause_and_leaves_nothing(sbx_fake: FakeBackend) -> None:
    cause = RuntimeError("no capacity")
    sbx_fake.simulate(create_fails=cause)
    with pytest.raises(CreationError) as caught:
        await sbx_fake.create()
    assert caught.value.__cause__ is cause
    assert sbx_fake.live_sandboxes == ()


async def test_kill_that_hangs_warns_that_a_sandbox_is_orphaned(sbx_fake: FakeBackend) -> None:
    sandbox = await sbx_fake.create(metadata={"tenant_id": "t1"})
    sbx_fake.simulate(kill_hangs=True)
    with (
        pytest.warns(OrphanedSandboxWarning, match=f"{sandbox.id}.*t1"),
        pytest.raises(ConnectError),
    ):
        await sandbox.kill()
    assert sbx_fake.clock.current_time() == 5
    sbx_fake.simulate()
    await sandbox.kill()
    assert sbx_fake.live_sandboxes == ()


async def test_kill_that_fails_can_be_repeated(sbx_fake: FakeBackend) -> None:
    sandbox = await sbx_fake.create()
    sbx_fake.simulate(kill_fails=RuntimeError("HTTP 500"))
    with pytest.raises(ConnectError):
        await sandbox.kill()
    assert sandbox.id in sbx_fake.live_sandboxes
    sbx_fake.simulate()
    await sandbox.kill()
    assert sbx_fake.live_sandboxes == ()


async def test_rate_limit_says_how_long_to_wait(sbx_fake: FakeBackend) -> None:
    sbx_fake.simulate(rate_limited=2.5)
    with pytest.raises(errors.RateLimitError) as caught:
        await sbx_fake.create()
    assert caught.value.retry_after == 2.5
    sbx_fake.simulate(rate_limited=True)
    with pytest.raises(errors.RateLimitError) as unsaid:
        await sbx_fake.create()
    assert unsaid.value.retry_after is None


async def test_every_third_command_fails(sbx_fake: FakeBackend) -> None:
    sbx_fake.simulate(fails_every=3)
    failed: list[int] = []
    for number in range(1, 8):
        try:
            await sbx_fake.sandbox.run("true")
        except SandboxUnreachable:
            failed.append(number)
    assert failed == [3, 6]


async def test_files_fail_and_the_disk_is_full_on_demand(sbx_fake: FakeBackend) -> None:
    files = sbx_fake.sandbox.files
    sbx_fake.simulate(files_fail=OSError("connection reset"))
    with pytest.raises(errors.ProviderError):
        await files.read("/etc/hostname")
    sbx_fake.simulate(disk_full=True)
    with pytest.raises(errors.DiskFull):
        await sbx_fake.sandbox.run("true")
    with pytest.raises(errors.DiskFull):
        await files.write("f", "x")
    assert await files.ls() == []


async def test_corrupted_sandbox_is_ended(sbx_fake: FakeBackend) -> None:
    async with await sbx_fake.create() as sandbox:
        sbx_fake.simulate(corrupted=True)
        with pytest.raises(errors.SandboxCorrupted):
            await sandbox.run("true")
        with pytest.raises(errors.SandboxGone):
            await sandbox.run("true")
    assert sbx_fake.live_sandboxes == ()


async def test_unknown_tier_satisfies_nothing_and_warns() -> None:
    fake = FakeBackend(isolation=IsolationTier.UNKNOWN)
    with pytest.raises(errors.ConfigurationError):
        await fake.create(require_isolation=IsolationTier.CONTAINER)
    with pytest.warns(UnverifiedIsolationWarning):
        await fake.create()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await fake.create()


async def test_template_that_owns_the_caps_refuses_them() -> None:
    fake = FakeBackend(resource_caps=False)
    with pytest.raises(errors.ConfigurationError, match="memory_mb") as caught:
        await fake.create(resources=Resources(memory_mb=64))
    assert "template" in caught.value.hint
    sandbox = await fake.create()
    assert sandbox.policy.memory_mb is not None
    assert "template" in sandbox.policy.memory_mb.mechanism
