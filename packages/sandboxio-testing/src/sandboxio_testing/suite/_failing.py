"""A provider that does not answer, refuses, or does not confirm."""

from __future__ import annotations

import warnings

import anyio
import pytest

from sandboxio.errors import ConnectError, CreateTimeout, OrphanedSandboxWarning

from ._attempts import attempt
from ._base import ContractBase, Maker, Names
from ._bounds import GRACE, SHORT
from ._clause_mark import clause

__all__ = ["FailingContract"]


class FailingContract(ContractBase):
    """What a backend makes of a provider that fails it."""

    @clause("create.unanswered")
    async def test_create_ends_although_nobody_answers(self) -> None:
        """If this fails, a call to the provider is made outside of the deadline."""
        backend = self.new_failing_backend("silent")
        began = anyio.current_time()
        error = await attempt(backend.create(template=self.template, timeout=SHORT))
        assert isinstance(error, CreateTimeout), repr(error)
        assert anyio.current_time() - began < SHORT + GRACE

    @clause("kill.refused")
    async def test_refused_end_says_so_each_time(self, make: Maker) -> None:
        """If this fails, a kill that failed counts as one, and the second is silently nothing."""
        backend = self.new_failing_backend("refusing")
        sandbox = await make(backend=backend)
        for _ in range(2):
            error = await attempt(sandbox.kill())
            assert isinstance(error, ConnectError), repr(error)
            assert error.__cause__ is not None, f"{error!r} has no cause"
            assert "sandboxio reap" in error.hint
            assert backend.name in error.hint
        assert (await sandbox.run(self.probes.exit(3))).exit_code == 3

    @clause("kill.unconfirmed")
    async def test_unconfirmed_end_raises_and_warns(
        self, make: Maker, name: Names, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If this fails, nobody learns which sandbox may still run, and cost."""
        monkeypatch.setenv("SBX_TEARDOWN_GRACE", str(SHORT))
        backend = self.new_failing_backend("stuck")
        tenant = name("tenant")
        sandbox = await make(backend=backend, metadata={"tenant_id": tenant})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            error = await attempt(sandbox.kill())
        assert isinstance(error, ConnectError), repr(error)
        told = [str(item.message) for item in caught if item.category is OrphanedSandboxWarning]
        assert len(told) == 1, [str(item.message) for item in caught]
        for part in (sandbox.id, backend.name, tenant):
            assert part in told[0], told[0]
