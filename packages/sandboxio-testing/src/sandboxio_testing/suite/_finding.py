"""Finding a sandbox again, its lifetime, and what happens when somebody else removes it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from sandboxio.errors import ConnectError, CreateTimeout, SandboxError, SandboxGone
from sandboxio.models import Capability
from sandboxio.protocols import AsyncSandbox, Backend, ReapableBackend

from ._attempts import attempt, stepped
from ._base import ContractBase, Maker, Names
from ._bounds import LIFETIME_SLACK, TICK
from ._clause_mark import clause, needs
from ._oracle import Oracle, known

__all__ = ["FindingContract"]

UNKNOWN_ID = "sbx-00000000000000aa"

UPLOAD = 64 << 20
"""Bytes that no transfer moves in a few steps."""


class FindingContract(ContractBase):
    """How a sandbox is found again, and how it ends without its handle."""

    # ----- connect

    @clause("connect.attaches")
    async def test_connect_attaches_to_the_same_sandbox(
        self, subject: Backend, sandbox: AsyncSandbox, name: Names
    ) -> None:
        """If this fails, the connected handle may have another working directory, or sandbox."""
        path = name("file")
        await sandbox.run(self.probes.write_file(path, "of the first handle"))
        async with await subject.connect(sandbox.id) as connected:
            assert connected.id == sandbox.id
            result = await connected.run(self.probes.show_file(path))
        assert result.stdout == "of the first handle"

    @clause("connect.describes-itself")
    async def test_connected_sandbox_describes_the_same(
        self, subject: Backend, sandbox: AsyncSandbox
    ) -> None:
        """If this fails, a handle tells the backend's defaults instead of what is in force."""
        async with await subject.connect(sandbox.id) as connected:
            assert connected.backend == sandbox.backend
            assert connected.isolation is sandbox.isolation
            assert connected.capabilities == sandbox.capabilities
            told, made = connected.policy, sandbox.policy
            assert (told.isolation, told.network) == (made.isolation, made.network)
            for cap in ("cpu", "memory_mb", "processes", "disk_mb"):
                values = [getattr(getattr(policy, cap), "value", None) for policy in (told, made)]
                assert values[0] == values[1], f"{cap}: {values}"

    @clause("connect.unknown")
    @pytest.mark.parametrize("sandbox_id", [UNKNOWN_ID, "no such sandbox", "", " ", "../.."])
    async def test_connect_to_an_unknown_id_is_an_error(
        self, subject: Backend, oracle: Oracle, sandbox_id: str
    ) -> None:
        """If this fails, `connect()` created something, or raised what is no `ConnectError`."""
        before = await oracle.sandboxes()
        with pytest.raises(ConnectError):
            await subject.connect(sandbox_id)
        assert await oracle.sandboxes() <= before

    @clause("connect.dead")
    async def test_connect_to_a_killed_sandbox_is_an_error(
        self, subject: Backend, make: Maker
    ) -> None:
        """If this fails, look for a provider that still knows a stopped sandbox."""
        sandbox = await make()
        await sandbox.kill()
        with pytest.raises(ConnectError):
            await subject.connect(sandbox.id)

    @clause("connect.leaves-it-running")
    async def test_leaving_a_connected_sandbox_leaves_it_running(
        self, subject: Backend, make: Maker, oracle: Oracle
    ) -> None:
        """If this fails, the block of a handle ends what it did not create."""
        sandbox = await make()
        async with await subject.connect(sandbox.id):
            pass
        assert await oracle.exists(sandbox.id)
        assert (await sandbox.run(self.probes.exit(3))).exit_code == 3

    @clause("connect.kill")
    async def test_kill_of_a_connected_sandbox_ends_it_for_all(
        self, subject: Backend, make: Maker, oracle: Oracle
    ) -> None:
        """If this fails, `kill()` of a connected handle merely lets go."""
        sandbox = await make()
        connected = await subject.connect(sandbox.id)
        await connected.kill()
        assert not await oracle.exists(sandbox.id)
        with pytest.raises(SandboxGone):
            await sandbox.run(self.probes.exit(0))

    # ----- lifetime

    async def _short_lived(self, make: Maker) -> tuple[AsyncSandbox, float]:
        """Make one with a short lifetime, in which it also has to be made; return that too.

        On a busy machine a longer one is needed.
        """
        lifetime = self.short_lifetime
        for _ in range(2):
            with suppress(CreateTimeout):
                return await make(timeout=lifetime), lifetime
            lifetime *= 2
        return await make(timeout=lifetime), lifetime

    @clause("lifetime.enforced")
    async def test_sandbox_ends_at_its_lifetime_by_itself(
        self, make: Maker, oracle: Oracle
    ) -> None:
        """If this fails, the lifetime is only checked when a call is made, or not at all.

        It is the backstop of every leak: what enforces it must not need the process that created
        the sandbox.
        """
        sandbox, lifetime = await self._short_lived(make)
        waited = 0.0
        while await oracle.exists(sandbox.id):
            assert waited < lifetime + LIFETIME_SLACK, f"it exists after {waited:g} s"
            await self.pass_time(4 * TICK)
            waited += 4 * TICK

    @clause("lifetime.gone")
    async def test_call_after_the_lifetime_raises_gone(self, make: Maker) -> None:
        """If this fails, the end of the lifetime is reported as a timeout or a provider's error."""
        sandbox, _ = await self._short_lived(make)
        error: Exception | None = None
        while error is None:
            error = await attempt(sandbox.run(self.probes.sleep(TICK)))
        assert isinstance(error, SandboxGone), repr(error)
        again = await attempt(sandbox.run(self.probes.exit(0)))
        assert isinstance(again, SandboxGone), repr(again)

    @clause("lifetime.in-flight")
    async def test_command_that_outlives_its_sandbox_raises_gone(self, make: Maker) -> None:
        """If this fails, the end of the sandbox looks like a timeout of the command."""
        sandbox, _ = await self._short_lived(make)
        with pytest.raises(SandboxGone):
            await sandbox.run(self.probes.sleep(300))

    @clause("lifetime.not-renewed")
    async def test_nothing_lengthens_the_lifetime(self, subject: Backend, make: Maker) -> None:
        """If this fails, a call, a timeout or a connect starts the lifetime anew."""
        sandbox, lifetime = await self._short_lived(make)
        began = anyio.current_time()
        error: Exception | None = None
        while error is None:
            await attempt(sandbox.run(self.probes.sleep(300), timeout=TICK))
            await attempt(_connect_and_leave(subject, sandbox.id))
            error = await attempt(sandbox.run(self.probes.exit(0)))
            took = anyio.current_time() - began
            assert took < lifetime + LIFETIME_SLACK, f"it lives after {took:.0f} s"
        assert isinstance(error, SandboxGone), repr(error)

    @clause("lifetime.reported")
    async def test_policy_tells_the_lifetime(self, make: Maker) -> None:
        """If this fails, `AppliedPolicy.lifetime_s` is not what is in force."""
        sandbox = await make(timeout=47)
        assert sandbox.policy.lifetime_s == 47

    # ----- removed

    @clause("removed.between-calls")
    async def test_call_on_a_removed_sandbox_raises_gone(self, make: Maker, oracle: Oracle) -> None:
        """If this fails, ask whether the sandbox still exists before you report what failed."""
        sandbox = await make()
        await oracle.destroy(sandbox.id)
        with pytest.raises(SandboxGone):
            await sandbox.run(self.probes.exit(0))

    @clause("removed.during-run")
    async def test_command_of_a_removed_sandbox_raises_gone(
        self, make: Maker, oracle: Oracle, name: Names
    ) -> None:
        """If this fails, the end of the connection was read as an exit of the command."""
        sandbox = await make()
        path = name("beat")
        errors: list[Exception | None] = []

        async def command() -> None:
            errors.append(await attempt(sandbox.run(self.probes.beat(path))))

        async with anyio.create_task_group() as group:
            group.start_soon(command)
            await self.pulse_of(sandbox, oracle).begun(path)
            await oracle.destroy(sandbox.id)
        assert isinstance(errors[0], SandboxGone), repr(errors)

    @needs(Capability.STREAMING)
    @clause("removed.during-stream")
    async def test_stream_of_a_removed_sandbox_raises_gone(
        self, make: Maker, oracle: Oracle, name: Names
    ) -> None:
        """If this fails, the end of the connection was read as the end of the output."""
        sandbox = await make()

        async def read() -> None:
            async with sandbox.stream(
                self.probes.say_around(b"now", name("never"), b"")
            ) as process:
                async for chunk in process:
                    assert chunk.data == b"now"
                    await oracle.destroy(sandbox.id)

        error = await attempt(read())
        assert isinstance(error, SandboxGone), repr(error)

    @needs(Capability.UPLOAD_DOWNLOAD)
    @clause("removed.during-upload")
    async def test_upload_to_a_removed_sandbox_raises_gone(
        self, make: Maker, oracle: Oracle, tmp_path: Path
    ) -> None:
        """If this fails, a broken transfer is not told from a sandbox that is gone."""
        await oracle.sandboxes()
        sandbox = await make()
        local = tmp_path / "large"
        with local.open("wb") as file:
            file.truncate(UPLOAD)
        witness = oracle.witness

        def at_wait(number: int) -> None:
            if number == 8:
                witness.destroy(sandbox.id)

        async def upload() -> None:
            await stepped(_upload(sandbox, local), at_wait)

        error = await attempt(upload())
        assert isinstance(error, SandboxGone), repr(error)

    @clause("removed.kill")
    async def test_kill_of_a_removed_sandbox_succeeds(self, make: Maker, oracle: Oracle) -> None:
        """If this fails, `kill()` takes "it is not there" for a refusal."""
        sandbox = await make()
        await oracle.destroy(sandbox.id)
        await sandbox.kill()

    # ----- managed

    @clause("managed.listed")
    async def test_running_sandbox_is_listed(
        self, reapable: ReapableBackend, sandbox: AsyncSandbox
    ) -> None:
        """If this fails, `sandboxio reap` cannot find what a crashed program left."""
        found = [item for item in await reapable.list_managed() if item.sandbox_id == sandbox.id]
        assert [(item.backend, item.state) for item in found] == [(reapable.name, "running")]

    @clause("managed.labels")
    async def test_metadata_is_listed_as_it_was_given(
        self, reapable: ReapableBackend, make: Maker, name: Names
    ) -> None:
        """If this fails, metadata is dropped, renamed or cut on its way to the provider."""
        labels = {"tenant_id": name("tenant"), "note": 'two words, ümlaut = "quoted"'}
        sandbox = await make(metadata=labels)
        found = [item for item in await reapable.list_managed() if item.sandbox_id == sandbox.id]
        assert [item.labels for item in found] == [labels]

    @clause("managed.filtered")
    async def test_labels_narrow_the_list(
        self, reapable: ReapableBackend, make: Maker, name: Names
    ) -> None:
        """If this fails, `labels=` is ignored, or matches any instead of all of them."""
        tenant = name("tenant")
        one = await make(metadata={"tenant_id": tenant, "run": "1"})
        two = await make(metadata={"tenant_id": tenant, "run": "2"})
        both = await reapable.list_managed(labels={"tenant_id": tenant})
        second = await reapable.list_managed(labels={"tenant_id": tenant, "run": "2"})
        assert {item.sandbox_id for item in both} == {one.id, two.id}
        assert {item.sandbox_id for item in second} == {two.id}

    @clause("managed.provider-labels")
    async def test_provider_stores_the_metadata(
        self, make: Maker, oracle: Oracle, name: Names
    ) -> None:
        """If this fails, orphans can only be found with sandboxio, and not at the provider."""
        labels = {"tenant_id": name("tenant")}
        sandbox = await make(metadata=labels)
        stored = known((await oracle.facts(sandbox.id)).labels, "labels")
        assert labels.items() <= dict(stored).items()

    @clause("managed.kill")
    async def test_kill_managed_ends_a_sandbox(
        self, reapable: ReapableBackend, make: Maker, oracle: Oracle
    ) -> None:
        """If this fails, `kill_managed()` does not wait for the end, or says the wrong thing."""
        sandbox = await make()
        assert await reapable.kill_managed(sandbox.id) is True
        assert not await oracle.exists(sandbox.id)

    @clause("managed.kill-unknown")
    async def test_kill_managed_of_what_is_not_ours_is_false(
        self, reapable: ReapableBackend, make: Maker
    ) -> None:
        """If this fails, `kill_managed()` raises for, or claims, what it did not end."""
        sandbox = await make()
        await sandbox.kill()
        assert await reapable.kill_managed(sandbox.id) is False
        assert await reapable.kill_managed(UNKNOWN_ID) is False
        assert await reapable.kill_managed("../..") is False

    @clause("managed.health")
    async def test_health_is_good_and_makes_nothing(
        self, reapable: ReapableBackend, sandbox: AsyncSandbox, oracle: Oracle
    ) -> None:
        """If this fails, `sandboxio doctor` and the router take a good backend for a bad one."""
        before = await oracle.sandboxes()
        for _ in range(3):  # a busy machine may take longer than one question may
            health = await reapable.health()
            if health.ok:
                break
        assert health.ok, f"{health.detail} ({health.hint})"
        assert health.detail
        assert await oracle.sandboxes() <= before
        assert sandbox.id in before


async def _connect_and_leave(backend: Backend, sandbox_id: str) -> None:
    try:
        async with await backend.connect(sandbox_id):
            pass
    except SandboxError:
        pass  # it has ended meanwhile


async def _upload(sandbox: AsyncSandbox, local: Path) -> None:
    await sandbox.files.upload(local, "large")
