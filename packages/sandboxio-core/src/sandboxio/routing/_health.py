"""What backends say of themselves: asked at once, bounded, once for all who want to know."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import anyio
from anyio.lowlevel import RunVar, checkpoint_if_cancelled

from ..errors import AuthError, SandboxError
from ..models import Health
from ..protocols import Backend
from ..spi import Clock, SupportsLoading

__all__ = ["Condition", "HealthBoard", "best_known"]


@dataclass(frozen=True)
class Condition:
    """What one entry last said.

    Attributes:
        health: What it said.
        refused: Why its credential does not do, if that is what it said.
    """

    health: Health | None
    refused: AuthError | None = None


@runtime_checkable
class _Asked(Protocol):
    async def health(self) -> Health: ...


class HealthBoard:
    """Remembers for some seconds what the entries of one router said.

    Whoever finds nothing fresh asks, and everybody else in that event loop who wants the same
    waits for that answer.
    """

    def __init__(self, clock: Clock, *, bound: float, fresh: float) -> None:
        self._clock = clock
        self._bound = bound
        self._fresh = fresh
        self._lock = threading.Lock()
        self._said: dict[str, tuple[float, Backend, Condition]] = {}
        self._asking: RunVar[dict[str, anyio.Event]] = RunVar(f"sandboxio_health_{id(self)}")

    def last(self, name: str, backend: Backend) -> Condition | None:
        """Return what an entry said, while that is fresh."""
        said = self._said.get(name)
        # Another backend under the same name was registered since: it has said nothing yet.
        if said is None or said[1] is not backend:
            return None
        return said[2] if self._clock.current_time() < said[0] else None

    def forget(self, name: str, before: float) -> None:
        """Believe no longer what an entry said before a moment: its create failed since."""
        with self._lock:
            said = self._said.get(name)
            if said is not None and said[0] - self._fresh <= before:
                del self._said[name]

    async def ask(self, backends: Mapping[str, Backend], enough: Callable[[], bool]) -> None:
        """Ask all of `backends` that said nothing fresh, at once, until it is `enough`."""
        stale = [name for name in backends if self.last(name, backends[name]) is None]
        if not stale or enough():
            return
        async with anyio.create_task_group() as group:

            async def one(name: str) -> None:
                await self._known(name, backends[name])
                if enough():
                    group.cancel_scope.cancel()

            for name in stale:
                group.start_soon(one, name)

    async def _known(self, name: str, backend: Backend) -> None:
        asking = self._in_this_loop()
        while self.last(name, backend) is None:
            # Who was cancelled while it waited must not begin to ask.
            await checkpoint_if_cancelled()
            underway = asking.get(name)
            if underway is not None:
                # Ends with the asker, who has `bound` seconds; if that was cancelled, we ask.
                await underway.wait()
                continue
            done = asking[name] = anyio.Event()
            try:
                condition = await self._asked(backend)
                with self._lock:
                    until = self._clock.current_time() + self._fresh
                    self._said[name] = (until, backend, condition)
            finally:
                del asking[name]
                done.set()
            return

    def _in_this_loop(self) -> dict[str, anyio.Event]:
        try:
            return self._asking.get()
        except LookupError:
            found: dict[str, anyio.Event] = {}
            self._asking.set(found)
            return found

    async def _asked(self, backend: Backend) -> Condition:
        if not isinstance(backend, _Asked):
            return Condition(Health(ok=True, detail="it has no health check"))
        try:
            if isinstance(backend, SupportsLoading):
                await backend.load()
            with self._clock.move_on_after(self._bound):
                return Condition(await backend.health())
        except AuthError as error:
            return Condition(None, error)
        except SandboxError as error:
            return Condition(Health(ok=False, detail=error.message, hint=error.hint))
        except Exception as error:  # noqa: BLE001 - a backend of any make must not stop others
            return Condition(Health(ok=False, detail=f"{type(error).__name__}: {error}"[:500]))
        return Condition(Health(ok=False, detail=f"no answer within {self._bound:g} s"))


def best_known(order: Sequence[str], works: Callable[[str], bool | None]) -> bool:
    """Whether the first that works is known, all before it being known not to."""
    for name in order:
        answer = works(name)
        if answer is not False:
            return answer is True
    return True
