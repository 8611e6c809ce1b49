"""The fake backend under the contract: it is worth what it has in common with real ones."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import ClassVar

from sandboxio.models import Capability, IsolationTier
from sandboxio_testing import FakeBackend
from sandboxio_testing.suite import BackendContract, ProviderFacts, Witness

LITTLE = Capability.RUN_COMMAND | Capability.NETWORK_POLICY


class FakeWitness(Witness):
    """Looks into the simulated machines."""

    def __init__(self, fake: FakeBackend) -> None:
        self._fake = fake

    def sandboxes(self) -> Collection[str]:
        return self._fake.live_sandboxes

    def processes(self, sandbox_id: str, marker: str) -> int:
        found = self._fake.processes(sandbox_id).values()
        return sum(marker in argument for argv in found for argument in argv)

    def facts(self, sandbox_id: str) -> ProviderFacts:
        (made,) = [
            call
            for call in self._fake.calls
            if (call.op, call.sandbox_id) == ("create", sandbox_id)
        ]
        return ProviderFacts(
            network="none",
            privileged=False,
            host_paths=(),
            memory_mb=None if made.resources is None else made.resources.memory_mb,
            processes=None if made.resources is None else made.resources.processes,
            labels=made.metadata,
            description=repr(made),
        )

    def destroy(self, sandbox_id: str) -> None:
        if sandbox_id in self._fake.live_sandboxes:
            self._fake.expire(sandbox_id)


def unreachable_fake() -> FakeBackend:
    """Return a fake whose provider does not answer."""
    fake = FakeBackend()
    fake.simulate(unreachable=True)
    return fake


def silent_fake() -> FakeBackend:
    """Return a fake whose provider takes a request, and has its time."""
    fake = FakeBackend()
    fake.simulate(create_takes=1e9)
    return fake


def refusing_fake() -> FakeBackend:
    """Return a fake whose provider ends nothing."""
    fake = FakeBackend()
    fake.simulate(kill_fails=PermissionError("403 Forbidden"))
    return fake


def stuck_fake() -> FakeBackend:
    """Return a fake whose provider never says that a sandbox has ended."""
    fake = FakeBackend()
    fake.simulate(kill_hangs=True)
    return fake


class FakeContract(BackendContract):
    """What all configurations of the fake have in common."""

    backend: ClassVar[FakeBackend]
    unreachable = staticmethod(unreachable_fake)
    silent = staticmethod(silent_fake)
    refusing = staticmethod(refusing_fake)
    stuck = staticmethod(stuck_fake)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.witness = FakeWitness(cls.backend)

    async def pass_time(self, seconds: float) -> None:
        await self.backend.clock.advance(seconds)


class TestFake(FakeContract):
    """All that it models."""

    backend = FakeBackend()
    audited = staticmethod(partial(FakeBackend))


class TestFakeWithLittle(FakeContract):
    """Almost nothing."""

    backend = FakeBackend(capabilities=LITTLE)
    audited = staticmethod(partial(FakeBackend, capabilities=LITTLE))


class TestFakeOfUnknownTier(FakeContract):
    """A tier that nobody claims."""

    loops = ("asyncio",)  # what the loops differ in is the same code as in the first class
    backend = FakeBackend(isolation=IsolationTier.UNKNOWN)
    audited = staticmethod(partial(FakeBackend, isolation=IsolationTier.UNKNOWN))


class TestFakeWithCapsOfTemplate(FakeContract):
    """Caps that belong to the template."""

    loops = ("trio",)  # see above
    backend = FakeBackend(resource_caps=False)
    audited = staticmethod(partial(FakeBackend, resource_caps=False))
    resource_caps_supported = False
