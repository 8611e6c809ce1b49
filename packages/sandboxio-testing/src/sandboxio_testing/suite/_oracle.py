"""The witness as the suite asks it: in a worker thread, and with a skip for what it cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import pytest
from anyio import to_thread

from ._witness import ProviderFacts, Unanswerable, Witness

__all__ = ["Oracle"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Oracle:
    """Asks a `Witness`."""

    def __init__(self, witness: Witness) -> None:
        self.witness = witness

    async def sandboxes(self) -> set[str]:
        """Return the ids of all sandboxes that exist."""
        return set(await self._ask(self.witness.sandboxes))

    async def exists(self, sandbox_id: str) -> bool:
        """Return whether a sandbox exists."""
        return sandbox_id in await self.sandboxes()

    async def processes(self, sandbox_id: str, marker: str) -> int:
        """Count the living processes of a sandbox with a marker in their command line."""
        return await self._ask(self.witness.processes, sandbox_id, marker)

    async def processes_if_it_can_tell(self, sandbox_id: str, marker: str) -> int | None:
        """Count them, or return ``None`` if this witness sees no processes."""
        try:
            return await to_thread.run_sync(self.witness.processes, sandbox_id, marker)
        except Unanswerable:
            return None

    async def facts(self, sandbox_id: str) -> ProviderFacts:
        """Return what the provider says of a sandbox."""
        return await self._ask(self.witness.facts, sandbox_id)

    async def destroy(self, sandbox_id: str) -> None:
        """Destroy a sandbox behind the backend's back."""
        await self._ask(self.witness.destroy, sandbox_id)

    async def destroy_if_it_can(self, sandbox_id: str) -> None:
        """Destroy what a test may have left; a witness that cannot has nothing to add."""
        try:
            await to_thread.run_sync(self.witness.destroy, sandbox_id)
        except Unanswerable:
            return

    async def _ask(self, question: Callable[[*Ts], T], *args: *Ts) -> T:
        try:
            return await to_thread.run_sync(question, *args)
        except Unanswerable as error:
            pytest.skip(f"the witness cannot tell: {error}")


def known(value: T | None, what: str) -> T:
    """Return a fact, or skip, by name, if the provider does not tell it."""
    if value is None:
        pytest.skip(f"the witness does not tell {what}")
    return value
