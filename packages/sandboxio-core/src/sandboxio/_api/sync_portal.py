"""The thread in which the event loop of one sandbox runs, for callers who have none.

It is not a daemon: Python waits for it at exit, so it sees by itself when nobody is left who could
use the sandbox, and ends both. That is what makes a sandbox that was never closed neither outlive
its program nor keep it from ending.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent import futures
from contextvars import Context
from types import TracebackType
from typing import Any, Generic, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from .._engine.settings import teardown_grace
from ..errors import ConfigurationError, CreationError, SandboxGone

__all__ = ["Portal", "Teardown"]

T = TypeVar("T")

Teardown = Callable[
    [type[BaseException] | None, BaseException | None, TracebackType | None], Awaitable[None]
]
"""What ends the sandbox: ``__aexit__`` of it, or nothing if there is none."""

LOOK_INTERVAL = 0.5
"""Seconds between two looks at whether anybody is left: Python tells no thread that it is about to
exit. What a program that closes its sandboxes never waits for."""

START_BOUND = 30.0
"""Seconds that a new thread has to run its event loop; it takes a millisecond."""


class Portal:
    """A thread with an event loop; `call` runs a coroutine there and waits for it.

    Whoever still needs the sandbox holds the portal. When nobody holds it any more it is closed, as
    if by `close`, within `LOOK_INTERVAL`.
    """

    def __init__(self, teardown: Teardown) -> None:
        self._pid = os.getpid()
        self._loop = _Loop(teardown, weakref.ref(self))
        self._thread = _PortalThread(self._loop)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise CreationError(
                f"No thread can be started for the event loop of the sandbox: {error}.",
                hint="Close sandboxes that are not needed; each has a thread. Or use create().",
            ) from error
        if not self._loop.ready.wait(START_BOUND):
            self._loop.closing = True
            raise CreationError(f"The event loop did not start within {START_BOUND:g} s.")

    @property
    def closed(self) -> bool:
        """Whether no more calls can be made."""
        return self._loop.closing

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine in the portal's loop and return or raise what it does.

        An interrupt (Ctrl-C) cancels it there and waits until it has cleaned up; another one stops
        the waiting, not the cleaning up.

        Raises:
            SandboxGone: The portal was closed.
            ConfigurationError: This is another process, or the portal's own thread.
        """
        self._check_place()
        if self.closed:
            raise self._gone()
        job = _Job(function)
        try:
            self._loop.submit(job)
            # The engine bounds whatever runs there; a bound here would only cut its answer off.
            return job.outcome.result()
        except (futures.CancelledError, _NotRunning):
            raise self._gone() from None
        except BaseException:
            if not job.outcome.done():
                job.unwanted = True
                self._loop.wake()
                futures.wait([job.outcome], timeout=2 * teardown_grace() + LOOK_INTERVAL)
            raise

    def close(
        self,
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """End the sandbox, the loop and the thread; calls under way fail with `SandboxGone`.

        The ending goes on if the wait for it is interrupted. May be called again.
        """
        self._check_place()
        if not self._loop.closing:
            self._loop.exit_args = (exc_type, exc, traceback)
            self._loop.closing = True
            self._loop.wake()
        # Bounded by the teardown itself, and by the cancellation of all else that follows it.
        error = self._loop.outcome.result()
        self._thread.join()
        if error is not None and not self._loop.told:
            self._loop.told = True
            raise error

    def is_of_this_process(self) -> bool:
        """Whether the thread exists here: a fork copies no thread."""
        return os.getpid() == self._pid

    def _check_place(self) -> None:
        if not self.is_of_this_process():
            raise ConfigurationError(
                f"This sandbox belongs to process {self._pid}; a fork does not take it along.",
                hint="Create a sandbox in the child process, or connect_sync() to this one by id.",
            )
        if threading.current_thread() is self._thread:
            raise ConfigurationError(
                "A sandbox of create_sync() is used from its own event loop, which would wait for "
                "itself for ever.",
                hint="Use the async API in coroutines, such as the emit() of an audit sink.",
            )

    def _gone(self) -> SandboxGone:
        return SandboxGone(
            "This handle was closed.", hint="Create a new sandbox, or close this one later."
        )


class _NotRunning(Exception):
    """The loop takes no more calls."""


class _Job(Generic[T]):
    """One call on its way through the portal."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self._function = function
        self.outcome: futures.Future[T] = futures.Future()
        # Set by the caller's thread, looked at by the loop's.
        self.unwanted = False
        self._scope: anyio.CancelScope | None = None

    async def run(self) -> None:
        with anyio.CancelScope() as self._scope:
            self.look()
            try:
                value = await self._function()
            except Exception as error:  # noqa: BLE001 - it is raised in the caller's thread
                self.outcome.set_exception(error)
            except BaseException:
                self.outcome.cancel()
                self.outcome.set_running_or_notify_cancel()
                raise
            else:
                self.outcome.set_result(value)

    def look(self) -> None:
        """Cancel it if its caller does not want it any more."""
        if self.unwanted and self._scope is not None:
            self._scope.cancel()


class _Loop:
    """The loop's side of a portal. Its plain attributes are set by one side and read by the other."""

    def __init__(self, teardown: Teardown, holder: weakref.ref[Portal]) -> None:
        self._teardown = teardown
        self._holder = holder
        self._portal: BlockingPortal | None = None
        self._bell: anyio.Event | None = None
        self._jobs: set[_Job[Any]] = set()
        self.ready = threading.Event()
        self.closing = False
        self.exit_args: tuple[
            type[BaseException] | None, BaseException | None, TracebackType | None
        ] = (None, None, None)
        self.outcome: futures.Future[Exception | None] = futures.Future()
        self.told = False

    # ----- called by other threads

    def submit(self, job: _Job[T]) -> None:
        """Start a call."""
        portal = self._portal
        try:
            if portal is None:
                raise _NotRunning
            portal.start_task_soon(self._serve, job)
        except RuntimeError as error:
            raise _NotRunning from error

    def wake(self) -> None:
        """Have the loop look around now, and not at its next turn."""
        portal = self._portal
        if portal is None:
            return
        try:
            portal.start_task_soon(self._ring)
        except RuntimeError:
            return  # it has ended, so there is nothing to look at

    # ----- in the loop

    def run(self) -> None:
        """Run the loop to its end; the body of the thread."""
        try:
            anyio.run(self._main)
        finally:
            self.closing = True
            self._portal = None
            if not self.outcome.done():
                self.outcome.set_result(SandboxGone("The event loop of the sandbox broke down."))
            self.ready.set()

    async def _main(self) -> None:
        error: Exception | None = None
        async with BlockingPortal() as portal:
            self._bell = anyio.Event()
            self._portal = portal
            self.ready.set()
            await self._until_closed()
            try:
                await self._teardown(*self.exit_args)
            except Exception as failure:  # noqa: BLE001 - it is raised by close()
                error = failure
            await portal.stop(cancel_remaining=True)
        self.outcome.set_result(error)

    async def _until_closed(self) -> None:
        while not self.closing:
            self._bell = anyio.Event()
            with anyio.move_on_after(LOOK_INTERVAL):
                await self._bell.wait()
            for job in tuple(self._jobs):
                job.look()
            if self._holder() is None or not _somebody_is_left():
                self.closing = True

    async def _serve(self, job: _Job[T]) -> None:
        self._jobs.add(job)
        try:
            await job.run()
        finally:
            self._jobs.discard(job)

    def _ring(self) -> None:
        assert self._bell is not None
        self._bell.set()


class _PortalThread(threading.Thread):
    """A thread that ends by itself when it is the last of its kind."""

    def __init__(self, loop: _Loop) -> None:
        # A context of its own: what the creator's context holds is for its own loop.
        super().__init__(target=Context().run, args=(loop.run,), name="sandboxio portal")


def _somebody_is_left() -> bool:
    """Whether a thread lives that may still use a sandbox, or that Python would wait for anyhow."""
    main = threading.main_thread()
    return any(
        thread is main or not (thread.daemon or _only_serves(thread))
        for thread in threading.enumerate()
        if thread.is_alive()
    )


def _only_serves(thread: threading.Thread) -> bool:
    # The workers of a portal's loop end with it, and so cannot be what it waits for.
    return isinstance(thread, _PortalThread) or thread.name == "AnyIO worker thread"
