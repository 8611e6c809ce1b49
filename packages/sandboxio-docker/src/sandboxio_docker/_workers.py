"""Threads for the SDK, which blocks: bounded, and never waited for by a teardown."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from sandboxio.errors import ConfigurationError

__all__ = ["Workers"]

T = TypeVar("T")

DEFAULT_THREADS = 16
"""Calls to the engine that may be under way at once, per event loop: ``SBX_DOCKER_THREADS``."""

TEARDOWN_THREADS = 16
"""Calls that end something. Threads of their own, so that ending never waits for what is busy."""


def threads_allowed() -> int:
    """Return what ``SBX_DOCKER_THREADS`` says."""
    text = os.environ.get("SBX_DOCKER_THREADS", "")
    if not text:
        return DEFAULT_THREADS
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 1000:
        raise ConfigurationError(
            "The environment variable SBX_DOCKER_THREADS must be a number from 1 to 1000.",
            hint=f"Set it to a number, or unset it (default: {DEFAULT_THREADS}).",
        )
    return int(text)


class Workers:
    """Runs blocking calls in threads; belongs to no event loop, each gets limiters of its own."""

    def __init__(self) -> None:
        self._busy: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("busy")
        self._teardown: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("end")

    async def run(
        self,
        work: Callable[[], T],
        *,
        undo: Callable[[T], None] | None = None,
        teardown: bool = False,
    ) -> T:
        """Run `work` in a thread and return what it returns.

        A cancelled caller does not wait for the thread. What `work` then still returns is handed to
        `undo`, in that thread, so that nothing is lost. `undo` raises nothing.
        """
        handover: Handover[T] = Handover(undo)
        limiter = self._limiter(teardown)
        try:
            return await anyio.to_thread.run_sync(
                lambda: handover.produce(work), abandon_on_cancel=True, limiter=limiter
            )
        except BaseException:
            handover.abandon()
            raise

    def _limiter(self, teardown: bool) -> anyio.CapacityLimiter:
        var, size = (
            (self._teardown, TEARDOWN_THREADS) if teardown else (self._busy, threads_allowed())
        )
        limiter = var.get(None)
        if limiter is None:
            limiter = anyio.CapacityLimiter(size)
            var.set(limiter)
        return limiter


class Handover(Generic[T]):
    """A result on its way from a thread to a caller who may have left."""

    def __init__(self, undo: Callable[[T], None] | None) -> None:
        self._undo = undo
        self._lock = threading.Lock()
        self._abandoned = False
        self._results: list[T] = []

    def produce(self, work: Callable[[], T]) -> T:
        """Do the work; if the caller has left meanwhile, undo it."""
        result = work()
        with self._lock:
            abandoned = self._abandoned
            self._results.append(result)
        if abandoned:
            self.abandon()
        return result

    def abandon(self) -> None:
        """Say that nobody takes the result; what is there of it is undone."""
        with self._lock:
            self._abandoned = True
            results, self._results = self._results, []
        if self._undo is not None:
            for result in results:
                self._undo(result)
