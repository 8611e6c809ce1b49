"""The event loop that E2B's SDK runs on: one of asyncio's, in a thread of its own.

The SDK calls asyncio directly, so it cannot run under trio. Under asyncio it could, but then what
it keeps open (the stream of a command, and tasks that read it) would belong to whichever loop
called first, while a sandbox may be used from many; and its own timers cancel the task that
started a stream, whatever that does by then. So it always runs here, and callers on any loop and
in any thread reach it as values. A call costs two wake-ups, about 0.1 ms.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

import anyio

__all__ = ["Portal"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STOP_BOUND = 2.0
"""Seconds for the loop to end its tasks when the interpreter exits, or when nobody needs it, and as
many for native threads to be done with it."""

STOP_POLL = 0.005
"""Seconds between two looks whether they are."""

LOOKED_AT = 64
"""Futures at least before those that are gone are forgotten."""


class _Call:
    """Lives as long as the call that made it."""


class Loop(asyncio.SelectorEventLoop):
    """Knows whether native threads may still call it.

    The SDK's HTTP client completes every future of its own from a native thread. Before Python 3.14
    an interpreter that exits in the middle of that ends the thread, and the client's code in between
    then aborts the whole process. What such a thread still holds is alive; when it lets go of it
    there is no Python code that it could be interrupted in. So no weak reference here has a callback.
    """

    def __init__(self) -> None:
        super().__init__()
        self._promises: list[weakref.ref[asyncio.Future[Any]]] = []
        self._look_at = LOOKED_AT
        self._calls: dict[int, weakref.ref[_Call]] = {}

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future, and remember it if it is not asyncio's own."""
        future = super().create_future()
        by: str = sys._getframe(1).f_globals.get("__name__", "")
        if not by.startswith("asyncio."):
            if len(self._promises) >= self._look_at:
                self._look_at = max(LOOKED_AT, 2 * len(self._held()))
            self._promises.append(weakref.ref(future))
        return future

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call it on this loop, from any thread."""
        call = _Call()
        self._calls[threading.get_ident()] = weakref.ref(call)
        return super().call_soon_threadsafe(callback, *args, context=context)

    async def left_alone(self) -> None:
        """Return when no native thread calls this loop, nor will."""
        while self._held() or self._called():  # noqa: ASYNC110 - native threads tell nobody
            await asyncio.sleep(STOP_POLL)

    def _called(self) -> bool:
        return any(call() for call in tuple(self._calls.values()))

    def _held(self) -> list[weakref.ref[asyncio.Future[Any]]]:
        self._promises = [promise for promise in self._promises if promise() is not None]
        return self._promises


class Portal:
    """Runs coroutines on a loop of its own. The thread starts with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: tuple[int, Loop] | None = None

    async def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await `work` over there, and return or raise what comes of it.

        When the caller is cancelled, so is the work; the caller does not wait for that.
        """
        future = self._submit(work)
        finished = anyio.Event()
        tell = _from_another_thread()
        future.add_done_callback(lambda _: tell(finished.set))
        try:
            await finished.wait()
        except BaseException:
            future.cancel()
            raise
        return future.result()

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start `work` over there, and do not wait for it. It handles its own errors."""
        self._submit(work)

    def _submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        # In a context of its own: the caller's may say that this is trio.
        return Context().run(asyncio.run_coroutine_threadsafe, work(), self._loop())

    def _loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # After a fork, the thread is the parent's.
            if self._running is None or self._running[0] != os.getpid():
                loop = Loop()
                # What the SDK leaves behind when a call of it is cancelled is of no use to anybody.
                loop.set_exception_handler(lambda _loop, _context: None)
                thread = threading.Thread(
                    target=_run, args=(loop,), name="sandboxio-e2b", daemon=True
                )
                thread.start()
                self._running = (os.getpid(), loop)
                # Also at the interpreter's exit: the SDK's native threads must not outlive it.
                weakref.finalize(self, _stop, loop, thread, os.getpid())
            return self._running[1]


def _run(loop: Loop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=STOP_BOUND))
        loop.run_until_complete(loop.shutdown_asyncgens())
        # What failed holds its future in a cycle, and nothing else does any more.
        del tasks
        gc.collect()
        with suppress(TimeoutError):
            loop.run_until_complete(asyncio.wait_for(loop.left_alone(), STOP_BOUND))
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int) -> None:
    if pid != os.getpid() or loop.is_closed():
        return
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join(3 * STOP_BOUND)


def _from_another_thread() -> Callable[[Callable[[], None]], None]:
    """Return what runs a function on the caller's loop; to be called in any thread."""
    try:
        call_soon: Callable[[Callable[[], None]], object] = (
            asyncio.get_running_loop().call_soon_threadsafe
        )
    except RuntimeError:
        import trio

        call_soon = trio.lowlevel.current_trio_token().run_sync_soon

    def tell(function: Callable[[], None]) -> None:
        try:
            call_soon(function)
        except RuntimeError:
            return  # the loop of a caller who has left is closed

    return tell
