"""Resource caps: in force, told truly, and never unset."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Any

import pytest

from sandboxio.errors import (
    CapabilityNotSupported,
    ConfigurationError,
    DiskFull,
    OutOfMemory,
    ProcessLimitExceeded,
    SandboxError,
)
from sandboxio.models import AppliedCap, AppliedPolicy, Capability, ExecResult, Resources
from sandboxio.protocols import AsyncSandbox, Backend

from ._base import ContractBase, Maker, Names
from ._clause_mark import clause
from ._oracle import Oracle, known
from ._refusals import refused

__all__ = ["CappingContract"]

# Whole cores: a backend without CPU quotas can still keep a sandbox to some of them.
ASKED: dict[str, Any] = {"cpu": 2, "memory_mb": 192, "processes": 64, "disk_mb": 64}
"""Caps that are not anybody's defaults."""

NO_CAPS: tuple[Any, ...] = (0, -1, math.nan, math.inf, True, "512", -0.5)


class CappingContract(ContractBase):
    """`Resources`."""

    async def applied(self, sandbox: AsyncSandbox, cap: str) -> AppliedCap:
        """Return a cap of a default sandbox, or skip if the backend enforces none of that kind."""
        if not self.resource_caps_supported:
            pytest.skip("the template owns the caps")
        found: AppliedCap | None = getattr(sandbox.policy, cap)
        if found is None:
            pytest.skip(f"the policy says that there is no cap on {cap}")
        return found

    async def outcome(self, sandbox: AsyncSandbox, command: list[str]) -> ExecResult | SandboxError:
        """Run a command that uses something up; its result or its error."""
        try:
            return await sandbox.run(command)
        except SandboxError as error:
            return error

    # ----- told

    @clause("caps.by-default")
    async def test_memory_and_processes_are_capped_by_default(self, sandbox: AsyncSandbox) -> None:
        """If this fails, a sandbox without `Resources` can use this host up."""
        policy = sandbox.policy
        # How many processes a template's machine takes is not always told.
        owned = (
            (policy.memory_mb, policy.processes)
            if self.resource_caps_supported
            else (policy.memory_mb,)
        )
        for cap in owned:
            assert cap is not None, policy
            assert 0 < cap.value < math.inf
            assert cap.mechanism

    @clause("caps.reported")
    @pytest.mark.parametrize("cap", ASKED)
    async def test_policy_tells_the_cap(self, sandbox: AsyncSandbox, make: Maker, cap: str) -> None:
        """If this fails, a cap is rounded, dropped, or told as asked for instead of as applied."""
        await self.applied(sandbox, cap)
        capped = await make(resources=Resources(**{cap: ASKED[cap]}))
        found: AppliedCap | None = getattr(capped.policy, cap)
        assert found is not None
        assert found.value == ASKED[cap]
        assert found.mechanism

    @clause("caps.provider")
    async def test_provider_says_the_same_of_the_caps(self, make: Maker, oracle: Oracle) -> None:
        """If this fails, the policy tells what was asked for and not what is in force."""
        sandbox = await make()
        facts = await oracle.facts(sandbox.id)
        told = {
            cap: (value, getattr(sandbox.policy, cap))
            for cap in ("memory_mb", "processes", "cpu")
            if (value := getattr(facts, cap)) is not None
        }
        known(told or None, "any cap")
        for cap, (value, applied) in told.items():
            assert applied is not None, f"{cap}: the provider says {value}, the policy nothing"
            # A process of the adapter's own may stand in the count, and units may be rounded.
            assert abs(applied.value - value) <= max(2, 0.02 * value), f"{cap}: {value}, {applied}"

    # ----- in force

    @clause("caps.memory")
    async def test_memory_cap_holds(self, sandbox: AsyncSandbox, make: Maker) -> None:
        """If this fails, the cap is not applied, or swap stands in for memory."""
        await self.applied(sandbox, "memory_mb")
        capped = await make(resources=Resources(memory_mb=128))
        small = await self.outcome(capped, self.probes.use_memory(16))
        assert isinstance(small, ExecResult), repr(small)
        assert small.exit_code == 0, f"the probe use_memory() does not work: {small}"
        large = await self.outcome(capped, self.probes.use_memory(512))
        refused = isinstance(large, OutOfMemory)
        assert refused or (isinstance(large, ExecResult) and large.exit_code != 0), repr(large)
        assert (await capped.run(self.probes.exit(3))).exit_code == 3

    @clause("caps.memory-named")
    async def test_kill_by_the_memory_cap_is_named(
        self, sandbox: AsyncSandbox, make: Maker
    ) -> None:
        """If this fails, the kernel's count of such kills is not looked at.

        A command that the cap refuses memory to, without killing it, ends as it likes.
        """
        await self.applied(sandbox, "memory_mb")
        capped = await make(resources=Resources(memory_mb=128))
        large = await self.outcome(capped, self.probes.use_memory(512))
        if isinstance(large, OutOfMemory):
            assert (large.limit, large.value) == ("memory_mb", 128)
            assert "memory_mb" in large.hint
        else:
            assert isinstance(large, ExecResult), repr(large)
            assert large.exit_code != 137, f"it was killed, and nothing says why: {large}"

    @clause("caps.processes")
    async def test_process_cap_holds(self, sandbox: AsyncSandbox, make: Maker) -> None:
        """If this fails, a fork bomb inside uses up the processes of this host."""
        await self.applied(sandbox, "processes")
        capped = await make(resources=Resources(processes=40))
        few = await self.outcome(capped, self.probes.start_processes(5))
        assert isinstance(few, ExecResult), repr(few)
        assert few.exit_code == 0, f"the probe start_processes() does not work: {few}"
        many = await self.outcome(capped, self.probes.start_processes(200))
        refused = isinstance(many, ProcessLimitExceeded)
        assert refused or (isinstance(many, ExecResult) and many.exit_code != 0), repr(many)
        ends = self.probes.exit(3)
        while isinstance(usable := await self.outcome(capped, ends), ProcessLimitExceeded):
            await self.pass_time(0.2)
        assert isinstance(usable, ExecResult), repr(usable)
        assert usable.exit_code == 3

    @clause("caps.disk")
    async def test_disk_cap_holds(self, sandbox: AsyncSandbox, make: Maker, name: Names) -> None:
        """If this fails, a sandbox can fill this host's disk."""
        await self.applied(sandbox, "disk_mb")
        capped = await make(resources=Resources(disk_mb=32, memory_mb=512))
        small = await self.outcome(capped, self.probes.use_disk(name("small"), 2))
        assert isinstance(small, ExecResult), repr(small)
        assert small.exit_code == 0, f"the probe use_disk() does not work: {small}"
        large = await self.outcome(capped, self.probes.use_disk(name("large"), 64))
        assert isinstance(large, DiskFull), repr(large)
        if Capability.FILESYSTEM in capped.capabilities:
            await capped.files.remove(name("large"))
            await capped.files.write("kept", b"old")
            with pytest.raises(DiskFull):
                await capped.files.write("kept", bytes(48 << 20))
            assert await capped.files.read("kept") == b"old"

    # ----- refused

    def with_caps(self, subject: Backend, resources: Resources) -> Awaitable[object]:
        """Return a create that asks for caps."""
        return subject.create(template=self.template, resources=resources, timeout=30)

    @clause("caps.unset")
    @pytest.mark.parametrize("value", NO_CAPS, ids=repr)
    @pytest.mark.parametrize("cap", ["cpu", "memory_mb", "disk_mb", "processes"])
    async def test_cap_cannot_be_unset(
        self, subject: Backend, oracle: Oracle, cap: str, value: Any
    ) -> None:
        """If this fails, 0, a negative number or infinity means "no cap" to the provider."""
        await refused(oracle, self.with_caps(subject, Resources(**{cap: value})))

    @clause("caps.unenforced-refused")
    @pytest.mark.parametrize("cap", ASKED)
    async def test_cap_that_is_not_enforced_is_refused(
        self, sandbox: AsyncSandbox, subject: Backend, oracle: Oracle, cap: str
    ) -> None:
        """If this fails, a cap is accepted and ignored."""
        policy: AppliedPolicy = sandbox.policy
        if getattr(policy, cap) is not None and self.resource_caps_supported:
            pytest.skip(f"{cap} is enforced: the policy says by what")
        await refused(oracle, self.with_caps(subject, Resources(**{cap: ASKED[cap]})))

    @clause("caps.of-the-template")
    @pytest.mark.parametrize("cap", ASKED)
    async def test_caps_of_the_template_cannot_be_asked_for(
        self, subject: Backend, oracle: Oracle, cap: str
    ) -> None:
        """If this fails, a cap is accepted by a backend whose templates own the caps."""
        if self.resource_caps_supported:
            pytest.skip("the backend takes caps for each sandbox")
        error = await refused(oracle, self.with_caps(subject, Resources(**{cap: ASKED[cap]})))
        assert isinstance(error, ConfigurationError)
        assert "template" in f"{error.message} {error.hint}"

    @clause("caps.gpu-refused")
    async def test_gpu_is_refused(self, subject: Backend, oracle: Oracle) -> None:
        """If this fails, a GPU is promised by a backend that has none."""
        if Capability.GPU in subject.capabilities:
            pytest.skip("the backend declares Capability.GPU")
        error = await refused(oracle, self.with_caps(subject, Resources(gpu="T4")))
        assert isinstance(error, CapabilityNotSupported)
        assert error.capability is Capability.GPU
