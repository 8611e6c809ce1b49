"""Time that passes only when nothing else can happen."""

from __future__ import annotations

import heapq
import math
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime

import anyio
from anyio.lowlevel import checkpoint

__all__ = ["Timer", "VirtualClock"]

EPOCH = 1_767_225_600.0
"""What a file's mtime is at second 0 of the clock: 2026-01-01T00:00:00Z, the same in every run."""

PATIENCE = 50
"""Passes of the event loop, without any call to the fake, before time moves on. A task that still
has something to say to the fake at this moment needs a few; each costs some ten microseconds."""

FIRST, LIFETIME, DEADLINE = 0, 1, 2
"""What comes first of that which is due at the same moment: a sleep ends before its deadline."""

Post = Callable[[Callable[[], object]], object]


class Timer:
    """Something that is due at a moment."""

    def __init__(self, when: float, order: int, action: Callable[[], object]) -> None:
        self.when = when
        self.order = order
        self.action: Callable[[], object] | None = action

    def cancel(self) -> None:
        """Make it never due."""
        self.action = None


class Parked:
    """A call that waits for the fake's world to change."""

    def __init__(self, ready: Callable[[], bool]) -> None:
        self.ready = ready
        self.event = anyio.Event()
        self._thread = threading.get_ident()
        self._post = poster()

    def poke(self) -> None:
        """Have it look again, whichever thread this is."""
        if threading.get_ident() == self._thread:
            self.event.set()
        else:
            self._post(lambda: self.event.set())


class VirtualClock:
    """A clock for simulated sandboxes: an hour of theirs takes a millisecond of yours.

    Time stands still while anything can happen without it. When every call that is under way in
    the fake waits, and the event loop has made some passes in which no other call came, time jumps
    to the next moment at which something is due: a ``sleep`` in a sandbox ends, a deadline of the
    engine passes, a lifetime is over. So what a test sees does not depend on how fast the machine
    is, and nothing ever waits for the wall clock.

    The one thing that this cannot know is what your own code waits for *outside* of the fake, such
    as a real socket or ``anyio.sleep``. Where a call has to be still waiting by then, hold the
    clock: ::

        with fake.clock.held():
            ...  # here no timeout fires, and no sleep ends, unless you `advance` the clock

    It is shared by all sandboxes of one fake, and may be used from several event loops in several
    threads at once.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._now = 0.0
        self._timers: list[tuple[float, int, int, Timer]] = []
        self._sequence = 0
        self._calls = 0
        self._parked: list[Parked] = []
        self._held = 0
        self._activity = 0

    def __repr__(self) -> str:
        return f"<VirtualClock at {self._now:.3f} s>"

    # --- for tests

    def current_time(self) -> float:
        """Return seconds since the fake was made; only `VirtualClock` itself moves them on."""
        return self._now

    def wall_time(self) -> float:
        """Return what the sandboxes take for the time of day, in seconds since the epoch."""
        return EPOCH + self._now

    def date(self) -> datetime:
        """Return the same as an aware `datetime`."""
        return datetime.fromtimestamp(self.wall_time(), UTC)

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Let time stand still in this block, whoever waits."""
        with self.lock:
            self._held += 1
        try:
            yield
        finally:
            with self.lock:
                self._held -= 1
                self.changed()

    async def advance(self, seconds: float) -> None:
        """Move on by `seconds`; all that is due until then happens, in order."""
        with self.held():
            target = self._now + seconds
            await self._settle()
            while (timer := self._next()) is not None and timer.when <= target:
                with self.lock:
                    self._fire(timer)
                await self._settle()
            with self.lock:
                self._now = max(self._now, target)
                self.changed()

    # --- for the engine

    @contextmanager
    def move_on_after(
        self, delay: float, *, shield: bool = False
    ) -> Generator[anyio.CancelScope, None, None]:
        """Open a scope that is cancelled after `delay` seconds of this clock.

        What happens at that very moment is still in time.
        """
        with anyio.CancelScope(shield=shield) as scope:
            thread, post = threading.get_ident(), poster()

            def cancel() -> None:
                if threading.get_ident() == thread:
                    scope.cancel()
                else:
                    post(scope.cancel)

            timer = self.at(self._now + max(0.0, delay), cancel, order=DEADLINE)
            try:
                yield scope
            finally:
                timer.cancel()

    # --- for the fake

    def at(self, when: float, action: Callable[[], object], *, order: int = FIRST) -> Timer:
        """Have `action` called at a moment, under the lock."""
        timer = Timer(when, order, action)
        with self.lock:
            if math.isfinite(when):
                self._sequence += 1
                heapq.heappush(self._timers, (when, order, self._sequence, timer))
                self._poke_pacer()
        return timer

    @contextmanager
    def call(self) -> Generator[None, None, None]:
        """Count a call as under way: until it waits in `wait_until`, time stands still."""
        with self.lock:
            self._calls += 1
            self._activity += 1
        try:
            yield
        finally:
            with self.lock:
                self._calls -= 1
                self.changed()

    async def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait, inside of `call`, until `ready` is true; it is asked under the lock."""
        await checkpoint()
        with self.lock:
            if ready():
                return
            parked = Parked(ready)
            self._parked.append(parked)
            self.changed()
        try:
            while True:
                with self.lock:
                    if ready():
                        return
                    parked.event = anyio.Event()
                    paces = self._parked[0] is parked and self._may_jump()
                if paces:
                    await self._pace(parked)
                else:
                    await parked.event.wait()
        finally:
            with self.lock:
                self._parked.remove(parked)
                self.changed()

    async def sleep(self, seconds: float) -> None:
        """Wait, inside of `call`, for `seconds` of this clock."""
        until = self._now + seconds
        timer = self.at(until, lambda: None)
        try:
            await self.wait_until(lambda: self._now >= until)
        finally:
            timer.cancel()

    def changed(self) -> None:
        """Have every call look again whether what it waits for has happened."""
        with self.lock:
            self._activity += 1
            for parked in self._parked:
                if parked.ready():
                    parked.poke()
            self._poke_pacer()

    # --- how it moves on

    def _poke_pacer(self) -> None:
        if self._may_jump():
            self._parked[0].poke()

    def _may_jump(self) -> bool:
        return (
            not self._held
            and 0 < self._calls == len(self._parked)
            and self._next() is not None
            and not any(parked.ready() for parked in self._parked)
        )

    def _next(self) -> Timer | None:
        while self._timers:
            timer = self._timers[0][3]
            if timer.action is not None:
                return timer
            heapq.heappop(self._timers)
        return None

    def _fire(self, timer: Timer) -> None:
        action, timer.action = timer.action, None
        self._now = max(self._now, timer.when)
        if action is not None:
            action()
        self.changed()

    async def _pace(self, parked: Parked) -> None:
        """Let the others speak first; then move on to what is next."""
        quiet, seen = 0, -1
        while True:
            await checkpoint()
            with self.lock:
                if not self._may_jump() or self._parked[0] is not parked:
                    return
                quiet = quiet + 1 if seen == self._activity else 0
                seen = self._activity
                timer = self._next()
                assert timer is not None
                if quiet >= PATIENCE or timer.when <= self._now:
                    self._fire(timer)
                    return

    async def _settle(self) -> None:
        """Wait until the event loop has made some passes in which nothing happened here."""
        quiet, seen = 0, -1
        while quiet < PATIENCE:
            await checkpoint()
            quiet = quiet + 1 if seen == self._activity else 0
            seen = self._activity


def poster() -> Post:
    """Return what has the running event loop call something, from any thread."""
    trio = sys.modules.get("trio")
    if trio is not None:
        try:
            return _forgiving(trio.lowlevel.current_trio_token().run_sync_soon)
        except RuntimeError:
            pass  # it is loaded, and this is not its loop
    import asyncio

    return _forgiving(asyncio.get_running_loop().call_soon_threadsafe)


def _forgiving(post: Post) -> Post:
    """A loop that has ended has nobody left to be told."""

    def told(action: Callable[[], object]) -> None:
        try:
            post(action)
        except RuntimeError:
            return

    return told
