"""Seeing from inside whether a heartbeat lives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sandboxio.protocols import AsyncSandbox

from ._bounds import TICK
from ._oracle import Oracle
from ._probes import Probes

__all__ = ["Pulse"]

REST = 0.4
"""Seconds, in the sandbox's own time, in which a heartbeat of 50 a second cannot stay silent."""


class Pulse:
    """Looks after heartbeats of `Probes` in one sandbox.

    Time is let pass by running `sleep` inside, so that a sandbox with a clock of its own is
    measured by that clock.
    """

    def __init__(self, sandbox: AsyncSandbox, probes: Probes, oracle: Oracle) -> None:
        self._sandbox = sandbox
        self._probes = probes
        self._oracle = oracle

    async def beats(self, path: str) -> int:
        """Return how often it has beaten."""
        result = await self._sandbox.run(self._probes.size_of(path))
        assert result.exit_code == 0, f"the probe size_of() failed: {result}"
        return int(result.stdout)

    async def rest(self, seconds: float = TICK) -> None:
        """Let time pass in the sandbox."""
        await self._sandbox.run(self._probes.sleep(seconds))

    async def wait(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until something holds; the test's own bound runs out if it never does."""
        while not await condition():
            await self.rest()

    async def have_begun(self, *paths: str) -> bool:
        """Say whether each heartbeat has beaten."""
        return all([await self.beats(path) for path in paths])

    async def begun(self, *paths: str) -> None:
        """Wait until each heartbeat has beaten."""
        for path in paths:
            while await self.beats(path) == 0:
                await self.rest()

    async def lives(self, path: str) -> None:
        """Wait until it beats once more; the test's own bound runs out if it does not."""
        before = await self.beats(path)
        while await self.beats(path) <= before:
            await self.rest()

    async def is_dead(self, *paths: str) -> None:
        """Fail unless each heartbeat has beaten and does not any more."""
        before = {path: await self.beats(path) for path in paths}
        await self.rest(REST)
        after = {path: await self.beats(path) for path in paths}
        silent = [path for path, count in before.items() if count == 0]
        assert not silent, f"these heartbeats never began, so their end proves nothing: {silent}"
        assert after == before, f"it is still alive: {before} became {after} within {REST} s"
        for path in paths:
            await self.has_no_process(path)

    async def has_no_process(self, marker: str) -> None:
        """Fail if the witness sees a living process with that marker in its command line."""
        living = await self._oracle.processes_if_it_can_tell(self._sandbox.id, marker)
        assert not living, f"the witness sees {living} living processes with {marker!r}"
