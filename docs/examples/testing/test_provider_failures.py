"""How to test what your code does when the provider misbehaves."""

from __future__ import annotations

import pytest

import sandboxio
from sandboxio import Capability, RateLimitError, SandboxGone
from sandboxio.testing import FakeBackend

pytestmark = pytest.mark.anyio


async def patient_create(pauses: list[float], attempts: int = 3) -> sandboxio.AsyncSandbox:
    """Create a sandbox, and ask again when the provider throttles."""
    for _ in range(attempts - 1):
        try:
            return await sandboxio.create("e2b://code-interpreter")
        except RateLimitError as error:
            pauses.append(error.retry_after or 1.0)  # where a real program would wait
    return await sandboxio.create("e2b://code-interpreter")


async def test_gives_up_in_the_end(sbx_offline: FakeBackend) -> None:
    sbx_offline.simulate(rate_limited=30)

    pauses: list[float] = []

    with pytest.raises(RateLimitError):
        await patient_create(pauses, attempts=3)

    assert pauses == [30, 30]
    assert [call.op for call in sbx_offline.calls].count("create") == 3


async def test_sandbox_that_the_provider_reclaimed(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox
    sbx_fake.expire(sandbox.id)

    with pytest.raises(SandboxGone):
        await sandbox.run("echo hello")


async def test_backend_that_cannot_stream() -> None:
    fake = FakeBackend(capabilities=Capability.RUN_COMMAND | Capability.NETWORK_POLICY)
    async with await fake.create() as sandbox:
        with pytest.raises(sandboxio.CapabilityNotSupported):
            sandbox.stream("make")


async def test_egress_that_the_policy_denies(sbx_fake: FakeBackend) -> None:
    result = await sbx_fake.sandbox.run("curl -sS https://example.com/upload")

    assert result.exit_code == 6
    assert [(attempt.host, attempt.allowed) for attempt in sbx_fake.egress] == [
        ("example.com", False)
    ]
