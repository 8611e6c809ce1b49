"""Where requests arrive: faults happen here, and connections are really aborted here."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ._faults import Fault, Faults

__all__ = ["Abort", "Connections", "Edge", "Seen", "protocol"]

SEEN_KEPT = 10_000
"""Requests that are remembered for tests to look at."""


BODY_KEPT = 1 << 16
"""Bytes from which on the body of a request is not remembered."""


class Abort(Exception):
    """Raised in a handler: the connection ends at once, in the middle of whatever it is in."""


@dataclass(frozen=True)
class Seen:
    """A request as it came, for tests; ``body`` is what a control-plane call carried."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class Connections:
    """The connections that are open, by the address of their client."""

    def __init__(self) -> None:
        self.open: dict[Any, asyncio.Transport] = {}

    def abort(self, scope: Scope) -> None:
        """Abort the connection that a request came by."""
        transport = self.open.get(tuple(scope["client"]))
        if transport is not None:
            transport.abort()


def protocol(connections: Connections) -> type[H11Protocol]:
    """Return uvicorn's own protocol, which also tells which connections are open."""

    class Protocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self.peer = tuple(transport.get_extra_info("peername"))
            connections.open[self.peer] = transport
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            connections.open.pop(self.peer, None)
            super().connection_lost(exc)

    return Protocol


class Edge:
    """An ASGI application in front of the services: it counts, breaks and passes on."""

    def __init__(self, app: ASGIApp, faults: Faults, connections: Connections) -> None:
        self._app = app
        self._faults = faults
        self._connections = connections
        self._lock = threading.Lock()
        self._seen: deque[Seen] = deque(maxlen=SEEN_KEPT)
        self.errors: deque[BaseException] = deque(maxlen=SEEN_KEPT)

    def seen(self) -> list[Seen]:
        """Return the requests that came."""
        with self._lock:
            return list(self._seen)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        receive = await self._remember(scope, receive)
        fault = self._faults.take(scope["method"], scope["path"])
        try:
            if fault is None:
                await self._app(scope, receive, send)
            else:
                await self._break(fault, scope, receive, send)
        except Abort:
            self._connections.abort(scope)
        except BaseExceptionGroup as group:
            # Starlette streams in a task group, which wraps what ends it.
            if group.subgroup(Finished) is None and group.subgroup(Abort) is None:
                self.errors.append(group)
                raise
            if group.subgroup(Abort) is not None:
                self._connections.abort(scope)
        except Finished:
            return
        except Exception as error:
            self.errors.append(error)
            raise

    async def _remember(self, scope: Scope, receive: Receive) -> Receive:
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        body = b""
        # Of the control plane alone: what goes to a sandbox may be a file of any size.
        length = int(headers.get("content-length", 0))
        if "e2b-sandbox-id" not in headers and 0 < length < BODY_KEPT:
            pieces: list[bytes] = []
            more = True
            while more:
                message = await receive()
                pieces.append(message.get("body", b""))
                more = message.get("more_body", False)
            body = b"".join(pieces)
            receive = _again(body, receive)
        with self._lock:
            self._seen.append(
                Seen(
                    scope["method"],
                    scope["path"],
                    scope["query_string"].decode("latin-1"),
                    headers,
                    body,
                )
            )
        return receive

    async def _break(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.silent:
            await _until_gone(receive)
            return
        if fault.drop == "before":
            raise Abort
        if fault.status is not None:
            await _answer(fault, send)
            return
        await self._app(scope, receive, _Broken(fault, send))


class _Broken:
    """A way to send that breaks where the fault says."""

    def __init__(self, fault: Fault, send: Send) -> None:
        self._fault = fault
        self._send = send
        self._sent = 0
        self._over = False

    async def __call__(self, message: Message) -> None:
        if self._over:
            return
        fault = self._fault
        if message["type"] != "http.response.body":
            if fault.drop == "head":
                raise Abort
            await self._send(message)
            return
        body: bytes = message.get("body", b"")
        cuts = fault.drop == "body" or fault.end_early
        if cuts and self._sent + len(body) >= fault.cut_after:
            self._over = True
            rest = body[: fault.cut_after - self._sent]
            if fault.end_early:
                await self._send({"type": "http.response.body", "body": rest})
                raise Finished
            if rest:
                await self._send({"type": "http.response.body", "body": rest, "more_body": True})
                await asyncio.sleep(0)
            raise Abort
        self._sent += len(body)
        if fault.drop == "after" and not message.get("more_body", False):
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
            raise Abort
        await self._send(message)


class Finished(Exception):
    """The answer was ended early; its handler has nothing more to do."""


def _again(body: bytes, receive: Receive) -> Receive:
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(fault: Fault, send: Send) -> None:
    status = cast("int", fault.status)
    body = fault.body
    headers = {
        "content-type": "application/json",
        **{k.lower(): v for k, v in fault.headers.items()},
    }
    if body is None:
        body = json.dumps({"code": status, "message": f"injected {status}"}).encode()
    pairs = [(key.encode(), value.encode()) for key, value in headers.items()]
    pairs.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
