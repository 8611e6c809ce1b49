"""A bounded queue between operations and a sink that is slow."""

from __future__ import annotations

import socket
import threading
import warnings
from collections import deque
from contextlib import suppress

import anyio

from ..errors import AuditSinkWarning, ConfigurationError
from ._config import AuditSink
from ._event import AuditEvent

__all__ = ["QueueSink"]

DELIVERY_BOUND = 30.0
"""Seconds that the target of a `QueueSink` has for one event, before the next one is tried."""


class QueueSink:
    """Keeps up to `maxlen` events for a slow target, which the host application drains.

    ``emit`` returns at once. The host runs ``drain()`` in a task group of its own; sandboxio owns
    no background task. When the queue is full, the oldest event is dropped, counted and warned of.
    Events may come from any thread and event loop.

    Example:
        >>> import anyio
        >>> async def main(target):
        ...     sink = QueueSink(target)
        ...     async with anyio.create_task_group() as group:
        ...         group.start_soon(sink.drain)
        ...         ...
        ...         sink.close()
    """

    def __init__(self, target: AuditSink, maxlen: int = 1000) -> None:
        if maxlen < 1:
            raise ConfigurationError("QueueSink's maxlen must be above 0.")
        self._target = target
        self._maxlen = maxlen
        self._events: deque[AuditEvent] = deque()
        self._lock = threading.Lock()
        self._bell: socket.socket | None = None
        self._closed = False
        self.dropped = 0

    def __repr__(self) -> str:
        held = f"{len(self._events)} of {self._maxlen} events, {self.dropped} dropped"
        return f"<QueueSink for {type(self._target).__name__[:60]}: {held}>"

    async def emit(self, event: AuditEvent) -> None:
        """Keep one event."""
        with self._lock:
            full = len(self._events) >= self._maxlen
            if full:
                self._events.popleft()
                self.dropped += 1
            self._events.append(event)
            self._ring()
        if full:
            warnings.warn(
                f"The audit queue is full: its oldest event was dropped ({self.dropped} so far). "
                "Is drain() running, and does its target keep up?",
                AuditSinkWarning,
                stacklevel=2,
            )

    def _ring(self) -> None:
        if self._bell is not None:
            with suppress(BlockingIOError):  # it rings already
                self._bell.send(b"\0")

    def close(self) -> None:
        """Let ``drain()`` return once nothing is left. Events that come later stay in the queue."""
        with self._lock:
            self._closed = True
            self._ring()

    async def drain(self) -> None:
        """Hand events to the target until cancelled, or until `close` and nothing is left.

        An event that the target refuses, or does not take in time, is dropped with an
        `AuditSinkWarning`. Cancelling loses none.
        """
        # A socket, and not an event of anyio: those may only be set in the loop that they belong to.
        heard, bell = socket.socketpair()
        with heard, bell:
            heard.setblocking(False)
            bell.setblocking(False)
            with self._lock:
                if self._bell is not None:
                    raise ConfigurationError("This QueueSink is being drained already.")
                self._bell = bell
            try:
                while True:
                    with self._lock:
                        event = self._events.popleft() if self._events else None
                        over = event is None and self._closed
                    if over:
                        return
                    if event is not None:
                        await self._deliver(event)
                        continue
                    await anyio.wait_readable(heard)
                    heard.recv(4096)
            finally:
                with self._lock:
                    self._bell = None

    async def _deliver(self, event: AuditEvent) -> None:
        problem = f"did not take an event within {DELIVERY_BOUND:g} s"
        delivered = False
        try:
            with anyio.move_on_after(DELIVERY_BOUND):
                try:
                    await self._target.emit(event)
                    delivered = True
                except Exception as error:  # noqa: BLE001 - a foreign sink's, and it must not end the delivery of what follows
                    problem = f"refused an event: {type(error).__name__}"
        except BaseException:
            if not delivered:
                with self._lock:
                    self._events.appendleft(event)
            raise
        if not delivered:
            with self._lock:
                self.dropped += 1
            warnings.warn(
                f"{type(self._target).__name__} {problem}; it was dropped.",
                AuditSinkWarning,
                stacklevel=2,
            )
