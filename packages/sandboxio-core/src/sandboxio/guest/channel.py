"""The host's end of the guest protocol: frames, operations, and who reads.

There is no reader task. Whoever waits for something reads for everybody meanwhile, and passes
that turn on when it has what it wanted. So nothing runs and no cancel scope is open between two
calls, a handle may be used from any task, and a sandbox is not bound to an event loop. What
nobody waits for stays in the kernel's buffers and in bounded ones here.

Everything that arrives is hostile until it was checked here.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import cast

import anyio
import anyio.lowlevel

from ..errors import ConfigurationError, CreationError, SandboxCorrupted, SandboxError, SandboxGone
from . import program as wire
from .fields import Fields, decode_fields, items, number, text
from .framing import SMALL_PAYLOAD, FrameSplitter
from .transport import Transport

__all__ = ["GuestChannel", "GuestInit", "Operation"]

AT_ONCE = 16
"""Pieces handed to the kernel in one call: a header that goes alone wakes every process on the way."""

LITTLE = 1 << 16
"""Bytes that are little to take at once when more of the same frame is on its way."""

TRICKLES = 8
"""Times that only little was taken, from which on more is given the time to come. Waking up for
each piece would take several times what moving it does, here and in each process that it came through."""

GATHER = 0.0005
"""Seconds that more is given. Event loops make it a millisecond."""

MAX_ERRNO = 4095
"""The highest that the kernel gives."""


@dataclass(frozen=True, kw_only=True)
class GuestInit:
    """What the creator of a sandbox tells its guest.

    Attributes:
        env: Environment of every command, added to what the guest was started with.
        secret_names: Which of its keys are secrets; told to those who attach, for redaction.
        workdir: Absolute path in the sandbox.
        lifetime: Seconds until the guest ends itself.
        lease: Whether the guest also ends when this connection does.
    """

    env: Mapping[str, str] = field(repr=False)
    secret_names: frozenset[str] = frozenset()
    workdir: str = "/work"
    lifetime: float
    lease: bool = True


class Operation:
    """Something under way in the guest, from its first frame to its last."""

    def __init__(self) -> None:
        self.ident = 0
        self.ended = False
        self.failure: tuple[int, str] | None = None
        self.waiting: set[anyio.Event] = set()

    def on_frame(self, kind: int, payload: bytes) -> bool:
        """Take a frame in; ``False`` if it is not allowed now. Synchronous, does no I/O."""
        if kind != wire.FAIL:
            return False
        fields = decode_fields(payload)
        self.failure = (number(fields, b"errno", 0, MAX_ERRNO), text(fields, b"what")[:200])
        self.ended = True
        return True

    def wake(self) -> None:
        """Let those who wait for this operation look again."""
        for event in self.waiting:
            event.set()


class GuestChannel:
    """A connection to a guest; see the module's docstring for how it is driven."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._operations: dict[int, Operation] = {}
        self._last_ident = 0
        self._splitter = FrameSplitter()
        self._trickled = 0
        self._unsent: deque[memoryview] = deque()
        self._failure: Callable[[], SandboxError] | None = None
        self._goodbye = ""
        self._hello: Fields | None = None
        self._ready = False
        self._expected_ready = False
        self._control = Operation()
        self._receiving = False
        self._sending = False
        self._receive_queue: dict[anyio.Event, None] = {}
        self._send_queue: dict[anyio.Event, None] = {}
        self._thread = 0
        self._users = 0
        self.secrets: tuple[str, ...] = ()
        self.workdir = "/"
        self.guest_pid = 0
        self._ends_at = float("inf")

    @classmethod
    async def open(cls, transport: Transport, init: GuestInit | None) -> GuestChannel:
        """Greet a guest and wait until it is ready; with ``None``, attach to a running one.

        The caller bounds it with a cancel scope, and closes the transport if it fails.
        """
        channel = cls(transport)
        channel._expected_ready = init is not None
        await channel.wait_until(channel._control, lambda: channel._hello is not None)
        assert channel._hello is not None
        hello = channel._hello
        channel.guest_pid = number(hello, b"pid")
        if init is None:
            channel.secrets = tuple(
                item.decode("utf-8", "surrogateescape")
                for item in items(hello, b"secrets")
                if isinstance(item, bytes)
            )
            channel.workdir = text(hello, b"workdir")
            remaining = number(hello, b"remaining", -1)
            if remaining >= 0:
                channel._ends_at = time.monotonic() + remaining / 1000
            return channel
        channel.secrets = tuple(init.env[name] for name in init.secret_names)
        channel.workdir = init.workdir
        payload = {
            "env": dict(init.env),
            "secrets": sorted(init.secret_names),
            "workdir": init.workdir,
            "lifetime": int(init.lifetime * 1000),
            "lease": int(init.lease),
        }
        channel.post(wire.INIT, 0, payload)
        await channel.flush()
        await channel.wait_until(channel._control, lambda: channel._ready)
        channel._ends_at = time.monotonic() + init.lifetime
        return channel

    @property
    def remaining(self) -> float:
        """Seconds of lifetime left."""
        return max(0.0, self._ends_at - time.monotonic())

    @property
    def failed(self) -> bool:
        """Whether the connection is over."""
        return self._failure is not None

    def close(self) -> None:
        """End the connection; operations under way fail with `SandboxGone`."""
        self._fail(lambda: SandboxGone("The sandbox was closed."))

    # ----- sending

    def post(self, kind: int, ident: int, payload: object = b"") -> None:
        """Queue a frame. It is never torn, however its sender is cancelled.

        Bytes are sent as they are and not copied if there are many: they must not change.
        """
        raw = isinstance(payload, bytes | memoryview)
        body = cast("bytes | memoryview", payload) if raw else wire.encode(payload)
        if len(body) > wire.MAX_PAYLOAD:
            raise ConfigurationError(
                f"The arguments and the environment of one call have {len(body)} bytes.",
                hint="Keep them under 1 MiB; hand large data over as stdin or as a file.",
            )
        header = wire.HEADER.pack(len(body), kind, ident)
        if len(body) < SMALL_PAYLOAD:
            self._unsent.append(memoryview(header + body))
        else:
            self._unsent += (memoryview(header), memoryview(body))

    def begin(self, operation: Operation, kind: int, payload: object) -> None:
        """Register an operation and queue its first frame."""
        if self._failure is not None:
            raise self._failure()
        ident = self._last_ident + 1
        # First, because it may refuse: what was never sent must not be waited for.
        self.post(kind, ident, payload)
        operation.ident = self._last_ident = ident
        self._operations[ident] = operation

    def send_some(self) -> bool:
        """Hand to the kernel what it takes now; whether everything is gone."""
        if self._sending:
            return False
        try:
            while self._unsent:
                pieces = list(islice(self._unsent, AT_ONCE))
                sent = self._transport.send_nowait(*pieces)
                for piece in pieces:
                    if sent < len(piece):
                        self._unsent[0] = piece[sent:]
                        return False
                    sent -= len(piece)
                    self._unsent.popleft()
        except OSError:
            # What was received before may say why, and reading finds the end by itself.
            self._unsent.clear()
        return True

    async def flush(self) -> None:
        """Wait until all that was queued so far is with the kernel."""
        if self.send_some():
            return
        with self._in_use():
            try:
                while self._unsent:
                    if self._failure is not None:
                        return
                    if self._sending:
                        await self._queue_up(self._send_queue)
                        continue
                    self._sending = True
                    try:
                        await self._transport.wait_sendable()
                    except OSError:
                        self._unsent.clear()  # as in `send_some`
                    finally:
                        self._sending = False
                    self.send_some()
            finally:
                self._next_in(self._send_queue)

    # ----- receiving

    async def wait_until(self, operation: Operation, ready: Callable[[], bool]) -> None:
        """Return when `ready`; read and dispatch for everybody while waiting.

        Raises:
            SandboxGone: The connection ended first.
            SandboxCorrupted: The guest broke the protocol.
        """
        if ready():
            return
        with self._in_use():
            try:
                while not ready():
                    if self._failure is not None:
                        raise self._failure()
                    if self._unsent and not self._sending and not self.send_some():
                        await self.flush()  # the answer may depend on it; a guest always reads
                        continue
                    if self._receiving:
                        await self._queue_up(self._receive_queue, operation)
                        continue
                    self._receiving = True
                    try:
                        data = await self._next_data()
                    except OSError as error:
                        self._lost(error)
                        continue
                    finally:
                        self._receiving = False
                    if data is None:
                        self._lost(None)
                    else:
                        self._feed(data)
            finally:
                if not self._receiving:
                    self._next_in(self._receive_queue)

    async def _next_data(self) -> bytes | None:
        """Wait for bytes; none at all if there are frames left to look at, ``None`` at the end."""
        if self._splitter.backlog:
            await anyio.lowlevel.checkpoint()
            return b""
        if self._trickled >= TRICKLES and self._splitter.missing >= LITTLE:
            await anyio.sleep(GATHER)
        data = await self._transport.receive()
        if len(data) >= LITTLE:
            self._trickled = 0
        elif self._splitter.missing >= LITTLE:
            self._trickled += 1
        return data or None

    async def _queue_up(
        self, queue: dict[anyio.Event, None], operation: Operation | None = None
    ) -> None:
        event = anyio.Event()
        queue[event] = None
        if operation is not None:
            operation.waiting.add(event)
        try:
            await event.wait()
        finally:
            queue.pop(event, None)
            if operation is not None:
                operation.waiting.discard(event)

    def _next_in(self, queue: dict[anyio.Event, None]) -> None:
        for event in queue:
            if not event.is_set():
                event.set()
                return

    @contextmanager
    def _in_use(self) -> Generator[None, None, None]:
        """Count those who are inside, and refuse a second thread beside them."""
        me = threading.get_ident()
        if self._users and self._thread != me:
            raise ConfigurationError(
                "One sandbox is in use by two threads at the same time.",
                hint="Give each thread its own sandbox, or share one from create_sync().",
            )
        self._thread = me
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    def _feed(self, data: bytes) -> None:
        try:
            for kind, ident, payload in self._splitter.feed(data):
                self._dispatch(kind, ident, payload)
        except (ValueError, ArithmeticError, LookupError, TypeError) as error:
            reason = str(error)[:200]
            self._fail(lambda: SandboxCorrupted(f"The sandbox broke the guest protocol: {reason}."))

    def _dispatch(self, kind: int, ident: int, payload: bytes) -> None:
        if ident == 0:
            self._on_control(kind, payload)
            return
        operation = self._operations.get(ident)
        if operation is None:
            raise wire.Malformed(f"a frame for operation {ident}, which is not under way")
        if not operation.on_frame(kind, payload):
            raise wire.Malformed(f"a frame of type {kind} that operation {ident} does not expect")
        if operation.ended:
            del self._operations[ident]
        operation.wake()

    def _on_control(self, kind: int, payload: bytes) -> None:
        if kind == wire.HELLO and self._hello is None:
            hello = decode_fields(payload)
            if number(hello, b"v") != wire.VERSION:
                raise wire.Malformed("a version that this host does not speak")
            number(hello, b"pid")
            number(hello, b"remaining", -1)
            text(hello, b"workdir")
            items(hello, b"secrets")
            self._hello = hello
        elif kind == wire.READY and self._expected_ready and not self._ready:
            self._ready = True
        elif kind == wire.BYE and not self._goodbye:
            self._goodbye = text(decode_fields(payload), b"reason")[:40] or "?"
        elif kind == wire.FAIL and self._expected_ready and not self._ready:
            self._on_refusal(decode_fields(payload))
        else:
            raise wire.Malformed(f"a frame of type {kind} on the connection")
        self._control.wake()

    def _on_refusal(self, fields: Fields) -> None:
        what = os.strerror(number(fields, b"errno", 0, MAX_ERRNO))
        self._fail(
            lambda: CreationError(
                f"The sandbox cannot be used: its working directory {self.workdir!r}: {what}."
            )
        )

    # ----- the end

    def _lost(self, error: OSError | None) -> None:
        if self._goodbye == "lifetime":
            message = "The sandbox's lifetime is over."
        else:
            message = "The sandbox ended: its guest closed the connection."

        def make() -> SandboxError:
            gone = SandboxGone(message)
            gone.__cause__ = error
            return gone

        self._fail(make)

    def _fail(self, make: Callable[[], SandboxError]) -> None:
        if self._failure is not None:
            return
        self._failure = make
        self._transport.close()
        self._unsent.clear()
        self._splitter = FrameSplitter()
        operations = [self._control, *self._operations.values()]
        self._operations.clear()
        for operation in operations:
            operation.wake()
        for queue in (self._receive_queue, self._send_queue):
            for event in queue:
                event.set()
