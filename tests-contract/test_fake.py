"""The fake backend under the contract: it is worth what it has in common with real ones."""

from __future__ import annotations

from collections.abc import Collection

from sandboxio_testing import FakeBackend
from sandboxio_testing.suite import BackendContract, ProviderFacts, Witness

FAKE = FakeBackend()


class FakeWitness(Witness):
    """Looks into the simulated machines."""

    def sandboxes(self) -> Collection[str]:
        return FAKE.live_sandboxes

    def processes(self, sandbox_id: str, marker: str) -> int:
        found = FAKE.processes(sandbox_id).values()
        return sum(marker in argument for argv in found for argument in argv)

    def facts(self, sandbox_id: str) -> ProviderFacts:
        return ProviderFacts(network="none", privileged=False, host_paths=())

    def destroy(self, sandbox_id: str) -> None:
        if sandbox_id in FAKE.live_sandboxes:
            FAKE.expire(sandbox_id)


class TestFake(BackendContract):
    backend = FAKE
    witness = FakeWitness()

    async def pass_time(self, seconds: float) -> None:
        await FAKE.clock.advance(seconds)
