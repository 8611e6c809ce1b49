"""The fake as a backend: its sandboxes come and go as those of any other."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

import sandboxio
from sandboxio import (
    PIPE,
    Capability,
    CapabilityNotSupported,
    ConfigurationError,
    ConnectError,
    IsolationTier,
    SandboxGone,
)
from sandboxio.testing import FakeBackend as AliasOfFakeBackend
from sandboxio_testing import FakeBackend, FakeConfig


async def test_dsn_and_typed_configuration_lead_to_it() -> None:
    async with await sandboxio.create("fake://image?timeout=9") as sandbox:
        assert sandbox.backend == "fake"
        assert sandbox.policy.lifetime_s == 9
        assert (await sandbox.run_code("print(6 * 7)")).stdout == "42\n"
    little = FakeConfig(capabilities=Capability.RUN_COMMAND | Capability.NETWORK_POLICY, timeout=5)
    async with await sandboxio.create(little) as sandbox:
        assert sandbox.capabilities == little.capabilities
        with pytest.raises(CapabilityNotSupported):
            await sandbox.files.ls()
    with pytest.raises(ConfigurationError):
        await sandboxio.create("fake://?capabilities=1")


def test_alias_in_core_is_the_same_class() -> None:
    assert AliasOfFakeBackend is FakeBackend


async def test_sandbox_is_always_the_same_and_needs_no_event_loop(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox
    assert sandbox is sbx_fake.sandbox
    assert [call.op for call in sbx_fake.calls] == ["create"]
    async with sandbox:
        assert (await sandbox.run("echo hi")).stdout == "hi\n"
    with pytest.raises(SandboxGone):
        await sbx_fake.sandbox.run("echo hi")


def test_sandbox_without_waiting_is_refused_where_creating_takes_time() -> None:
    fake = FakeBackend()
    fake.simulate(create_takes=1)
    with pytest.raises(ConfigurationError, match="takes time"):
        _ = fake.sandbox


def test_sync_sandbox_is_the_same_machine(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sync_sandbox
    assert sandbox.id == sbx_fake.sandbox.id
    sandbox.files.write("f", "data")
    assert sandbox.run("sleep 60; cat f").stdout == "data"
    assert sbx_fake.calls[0].op == "create"


async def test_what_exists_is_listed_connected_to_and_destroyed(sbx_fake: FakeBackend) -> None:
    first = await sbx_fake.create(metadata={"tenant_id": "a"})
    second = await sbx_fake.create(metadata={"tenant_id": "b"})
    listed = await sbx_fake.list_managed(labels={"tenant_id": "b"})
    assert [item.sandbox_id for item in listed] == [second.id]
    assert listed[0].created_at is not None
    async with await sbx_fake.connect(first.id) as attached:
        await attached.files.write("f", "from the other handle")
    assert await first.files.read("f") == b"from the other handle"
    assert await sbx_fake.kill_managed(first.id)
    assert not await sbx_fake.kill_managed(first.id)
    with pytest.raises(SandboxGone):
        await first.run("true")
    with pytest.raises(ConnectError):
        await sbx_fake.connect(first.id)


async def test_expired_sandbox_fails_what_is_under_way(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox

    async def expire() -> None:
        while not sbx_fake.processes(sandbox.id):
            await anyio.lowlevel.checkpoint()
        sbx_fake.expire(sandbox.id)

    with sbx_fake.clock.held(), anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(expire)
            with pytest.raises(SandboxGone):
                await sandbox.run(["sleep", "100"])
    with pytest.raises(ConfigurationError):
        sbx_fake.expire(sandbox.id)


async def test_two_fakes_and_two_sandboxes_share_nothing() -> None:
    first, second = FakeBackend(), FakeBackend()
    await first.sandbox.run("echo secret > f; sleep 5")
    assert (await second.sandbox.run("cat f")).exit_code == 1
    assert (await (await first.create()).run("cat f")).exit_code == 1
    assert second.clock.current_time() == 0
    assert len(first.calls) == 4


async def test_stdin_is_open_until_it_is_closed(sbx_fake: FakeBackend) -> None:
    async with sbx_fake.sandbox.stream(
        "while read x; do echo [$x]; done; echo end", stdin=PIPE
    ) as p:
        await p.send("one\n")
        assert (await anext(aiter(p))).data == b"[one]\n"
        await p.send_eof()
        assert b"".join([chunk.data async for chunk in p]) == b"end\n"
    async with sbx_fake.sandbox.stream("trap 'exit 9' TERM; sleep 1000 & wait") as p:
        await p.signal(15)
        assert (await p.wait()).exit_code == 9


async def test_ten_mebibytes_go_in_and_out_at_once(sbx_fake: FakeBackend) -> None:
    data = bytes(range(256)) * 40_000
    with anyio.fail_after(60):
        result = await sbx_fake.sandbox.run("cat | wc -c", stdin=data)
        assert result.stdout == f"{len(data)}\n"
        await sbx_fake.sandbox.files.write("big", data)
        assert await sbx_fake.sandbox.files.read("big") == data


async def test_reported_tier_is_what_the_test_says() -> None:
    fake = FakeBackend(isolation=IsolationTier.MICROVM)
    async with await fake.create(require_isolation=IsolationTier.GVISOR) as sandbox:
        assert sandbox.isolation is IsolationTier.MICROVM
        assert "isolates nothing" in sandbox.policy.notes[0]


async def test_closing_a_fake_ends_all_its_sandboxes() -> None:
    fake = FakeBackend()
    sandbox = await fake.create()
    fake.close()
    assert fake.live_sandboxes == ()
    with pytest.raises(SandboxGone):
        await sandbox.run("true")
