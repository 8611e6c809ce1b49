"""HTTP sessions: each has a server loop and a sandbox of its own, and an end.

A session begins with ``initialize`` and ends when its client says so (DELETE), when nothing of the
client was open for the idle time, when its client broke off and did not come back, or with the
server. Its sandbox ends with it. The SDK's own manager tells nobody that a session has ended or
that a client has broken off, which is why this one exists.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

import anyio
import anyio.abc
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.types import INTERNAL_ERROR, INVALID_REQUEST, UNSUPPORTED_PROTOCOL_VERSION
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from ._asgi import Message, Receive, Scope, Send, header, json_rpc_error
from ._server import BROKEN
from ._workspace import Workspace

__all__ = ["Sessions"]

logger = logging.getLogger(__name__)

RECONNECT_GRACE: Final = 2.0
"""Seconds for a client whose stream broke to come back; the official one does after 1 s. With the
end of the sandbox itself that stays below the 5 s that are promised."""


@dataclass(eq=False)
class Session:
    """One client between its ``initialize`` and its end."""

    transport: StreamableHTTPServerTransport
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    open: int = 0
    broken: bool = False

    def begin(self) -> None:
        """Count a request; while one is open, the session does not end by itself."""
        self.open += 1
        self.broken = False
        self.scope.deadline = math.inf

    def finish(self, *, broken: bool, idle: float) -> None:
        """Count the end of a request, and start the countdown after the last one."""
        self.open -= 1
        self.broken = self.broken or broken
        if not self.open:
            left = RECONNECT_GRACE if self.broken else idle
            self.scope.deadline = anyio.current_time() + left


class Sessions:
    """All sessions of one HTTP server, as an ASGI application."""

    def __init__(self, server: Server[Workspace], *, most: int, idle: float) -> None:
        self._server = server
        self._most = most
        self._idle = idle
        self._sessions: dict[str, Session] = {}
        self._group: anyio.abc.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Serve sessions in this block; when it is left, all of them and their sandboxes are gone."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        version = header(scope, "mcp-protocol-version")
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            # Later protocols have no sessions, and without one nothing says whose sandbox is meant.
            served = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": version[:40]}
            await json_rpc_error(
                send, 400, UNSUPPORTED_PROTOCOL_VERSION, "This protocol is not served.", served
            )
            return
        session_id = header(scope, "mcp-session-id")
        if session_id is not None:
            session = self._sessions.get(session_id)
            if session is None or session.scope.cancel_called:
                await json_rpc_error(send, 404, INVALID_REQUEST, "There is no such session.")
                return
            await self._serve(session, scope, receive, send)
        elif scope["method"] != "POST":
            await json_rpc_error(send, 400, INVALID_REQUEST, "The session is not named.")
        elif self._group is None or len(self._sessions) >= self._most:
            logger.warning("a session was refused: %d are open", len(self._sessions))
            await json_rpc_error(send, 503, INTERNAL_ERROR, "Too many sessions are open.")
        else:
            await self._open(self._group, scope, receive, send)

    async def _open(
        self, group: anyio.abc.TaskGroup, scope: Scope, receive: Receive, send: Send
    ) -> None:
        name = uuid4().hex  # 122 bits of the system's randomness: it cannot be guessed
        session = Session(StreamableHTTPServerTransport(name))
        self._sessions[name] = session
        session.begin()  # until it is answered: the countdown starts then
        status = 500
        try:
            await group.start(self._run, name, session)
            status = await self._serve(session, scope, receive, send)
        finally:
            session.finish(broken=False, idle=self._idle)
            if status >= 400:
                session.scope.cancel()  # only `initialize` opens a session

    async def _run(
        self,
        name: str,
        session: Session,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async with session.transport.connect() as (received, to_send):
            task_status.started()
            try:
                with session.scope:
                    options = self._server.create_initialization_options()
                    await self._server.run(received, to_send, options)
            except Exception:
                # One session's fault is not the others'.
                logger.exception("a session failed")
            finally:
                del self._sessions[name]
                if not session.transport.is_terminated:
                    with anyio.CancelScope(shield=True):
                        await session.transport.terminate()

    async def _serve(self, session: Session, scope: Scope, receive: Receive, send: Send) -> int:
        broken = anyio.Event()
        status = 500
        finished = False

        async def watched_receive() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect" and not finished:
                broken.set()
            return message

        async def watched_send(message: Message) -> None:
            nonlocal status, finished
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body" and not message.get("more_body"):
                finished = True
            await send(message)

        session.begin()
        try:
            await session.transport.handle_request(
                {**scope, BROKEN: broken}, watched_receive, watched_send
            )
        finally:
            session.finish(broken=broken.is_set(), idle=self._idle)
        return status
