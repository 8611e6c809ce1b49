"""What the adapter asks E2B for: rules, labels and lifetimes as they go over the wire."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

import sandboxio
from sandboxio import (
    Capability,
    ConfigurationError,
    ConnectError,
    CreationError,
    IsolationTier,
    NetworkPolicy,
    Resources,
    SandboxError,
)
from sandboxio_e2b import E2BBackend, E2BConfig
from sandboxio_e2b._info import Info
from sandboxio_e2b._plugin import sandboxio_backend
from sandboxio_e2b._policy import policy_of
from sandboxio_testing.e2b import LocalE2B


def asked(server: LocalE2B) -> dict[str, Any]:
    """Return the body of the last create."""
    creates = [s for s in server.seen() if (s.method, s.path) == ("POST", "/v2/sandboxes")]
    body: dict[str, Any] = json.loads(creates[-1].body)
    return body


async def test_denied_is_the_default_and_read_back(server: LocalE2B) -> None:
    async with await sandboxio.create("e2b://?timeout=60") as sandbox:
        body = asked(server)
        assert body["allow_internet_access"] is False
        assert body["timeout"] == 60
        assert body["templateID"] == "code-interpreter-v1"
        assert body["envVars"] == {}
        assert sandbox.policy.network_verified


async def test_allowlist_becomes_native_rules(backend: E2BBackend, server: LocalE2B) -> None:
    """The double refuses a list that it cannot enforce, and the request has gone out by then."""
    allow = ("api.example.com", "*.example.org", "10.1.0.0/16")
    with pytest.raises(CreationError, match="list of hosts"):
        await backend.create(network=NetworkPolicy(allow=allow))
    assert asked(server)["network"] == {"allowOut": [*allow], "denyOut": ["0.0.0.0/0"]}
    assert Capability.NETWORK_ALLOWLIST in backend.capabilities


@pytest.mark.parametrize("entry", ["https://example.com", "a b", "", "example.com:443", "10.0.0/8"])
async def test_entry_that_e2b_would_misread_is_refused(
    backend: E2BBackend, server: LocalE2B, entry: str
) -> None:
    before = len(server.seen())
    with pytest.raises(ConfigurationError):
        await backend.create(network=NetworkPolicy(allow=(entry,)))
    assert len(server.seen()) == before


INFO = Info(
    id="i1",
    metadata={},
    running=True,
    started=datetime(2026, 11, 29, tzinfo=UTC),
    ends=datetime(2026, 11, 30, tzinfo=UTC),
    cpu=2,
    memory_mb=512,
    internet=None,
    allow=("example.com",),
    deny=("0.0.0.0/0",),
)


def test_rules_that_were_read_back_are_verified() -> None:
    asked_for = NetworkPolicy(allow=("example.com",))
    policy = policy_of(INFO, asked_for, 60, IsolationTier.MICROVM)
    assert policy.network_verified
    assert policy.network == asked_for


def test_other_rules_than_asked_for_are_no_sandbox() -> None:
    with pytest.raises(CreationError):
        policy_of(INFO, NetworkPolicy(), 60, IsolationTier.MICROVM)


async def test_resources_are_refused_naming_the_template(
    backend: E2BBackend, server: LocalE2B
) -> None:
    before = len(server.seen())
    for resources in (Resources(cpu=2), Resources(memory_mb=512), Resources(disk_mb=1)):
        with pytest.raises(SandboxError) as caught:
            await backend.create(resources=resources)
        assert "template" in caught.value.hint
    assert len(server.seen()) == before


async def test_labels_and_what_makes_a_sandbox_ours(backend: E2BBackend, server: LocalE2B) -> None:
    import os

    from e2b import AsyncSandbox

    async with await backend.create(metadata={"tenant_id": "a&b=c d"}, timeout=60):
        stored = asked(server)["metadata"]
        assert stored["tenant_id"] == "a&b=c d"
        assert stored["sandboxio_managed"] == "true"
        assert stored["sandboxio_session"] == str(os.getpid())
        assert [item.labels for item in await backend.list_managed()] == [{"tenant_id": "a&b=c d"}]
        assert await backend.list_managed(labels={"tenant_id": "other"}) == []
    with pytest.raises(ConfigurationError):
        await backend.create(metadata={"sandboxio_managed": "false"})

    import asyncio

    import anyio

    foreign = await anyio.to_thread.run_sync(lambda: asyncio.run(AsyncSandbox.create(timeout=60)))
    with pytest.raises(ConnectError):
        await backend.connect(foreign.sandbox_id)
    assert not await backend.kill_managed(foreign.sandbox_id)
    assert server.sandboxes == [foreign.sandbox_id]
    server.end_all()


async def test_tier_is_that_of_what_runs_there(
    backend: E2BBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sandboxio_backend().isolation is IsolationTier.MICROVM
    assert sandboxio_backend().isolation_date
    on_the_double = backend.isolation
    monkeypatch.delenv("E2B_SANDBOX_URL")
    # The double runs on this kernel.
    tiers = (on_the_double, backend.isolation)
    assert tiers == (IsolationTier.CONTAINER, IsolationTier.MICROVM)


def test_plugin_loads_no_sdk() -> None:
    import subprocess
    import sys

    script = "import sys, sandboxio_e2b._plugin as p; p.sandboxio_backend(); assert not {'e2b', 'httpx'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert E2BConfig(template="t").backend == "e2b"
