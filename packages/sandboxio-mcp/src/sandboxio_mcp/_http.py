"""MCP over streamable HTTP, on asyncio, as uvicorn serves it."""

from __future__ import annotations

import logging
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import RequestBodyLimitMiddleware

from sandboxio.errors import ConfigurationError

from ._config import HttpConfig, is_loopback
from ._guard import Guard
from ._sessions import Sessions
from ._signals import Stopped, stop_on_signal
from ._workspace import Workspace

__all__ = ["PATH", "listen", "serve_http", "url_of"]

logger = logging.getLogger(__name__)

PATH: Final = "/mcp"

LARGEST_REQUEST: Final = 4 * 1024 * 1024
"""Bytes of a request's body."""

CONNECTIONS_PER_SESSION: Final = 16
"""Connections at once for each session that there is room for: calls, their cancellation, streams."""

LAST_ANSWERS: Final = 1
"""Seconds for answers that are still being sent when the server stops; the sandboxes are gone by
then."""

STOP_BOUND: Final = 3.0
"""Seconds for uvicorn to stop after that; it runs out when a connection does not let go."""


class _Uvicorn(uvicorn.Server):
    """uvicorn that leaves signals to us: a sandbox has to end before the loop does."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Do nothing."""
        yield


def listen(config: HttpConfig) -> socket.socket:
    """Return a socket that listens; there is one address, and nothing else is bound.

    Raises:
        ConfigurationError: The address cannot be bound.
    """
    try:
        found = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(f"{config.host!r} is no address to listen on: {error}.") from error
    if config.token is None and not is_loopback(str(address[0])):
        listening.close()
        raise ConfigurationError(
            f"{config.host!r} means {address[0]} on this machine, which others may reach, and there "
            "is no token.",
            hint="Listen on 127.0.0.1, or set SBX_MCP_TOKEN.",
        )
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        raise ConfigurationError(
            f"Cannot listen on {config.host}:{config.port}: {error.strerror}.",
            hint="Choose another --port; 0 takes one that is free.",
        ) from error
    return listening


def url_of(config: HttpConfig, listening: socket.socket) -> str:
    """Return the address for a client."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"http://{host}:{listening.getsockname()[1]}{PATH}"


async def serve_http(
    server: Server[Workspace], config: HttpConfig, listening: socket.socket, *, idle: float
) -> int:
    """Serve until a signal; return the exit code."""
    sessions = Sessions(server, most=config.max_sessions, idle=idle)
    app = Guard(RequestBodyLimitMiddleware(sessions, LARGEST_REQUEST), config, PATH)
    uvicorn_server = _Uvicorn(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_PER_SESSION * config.max_sessions,
            timeout_graceful_shutdown=LAST_ANSWERS,
        )
    )
    stopped = Stopped()
    over = anyio.Event()

    async def listen_and_serve() -> None:
        await uvicorn_server.serve(sockets=[listening])
        over.set()

    async with anyio.create_task_group() as group:
        group.start_soon(listen_and_serve)
        async with stop_on_signal(stopped), sessions.running():
            await over.wait()  # it does not end by itself, unless it fails to start
        uvicorn_server.should_exit = True
        with anyio.move_on_after(STOP_BOUND):
            await over.wait()
        group.cancel_scope.cancel()
    return stopped.exit_code if stopped.signum is not None else 1
