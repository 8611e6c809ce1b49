"""The server: an event loop in a thread of its own, and a way to start and stop it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import threading
from contextvars import Context
from datetime import datetime
from types import TracebackType

import uvicorn

from sandboxio import Resources

from ._app import application
from ._edge import Connections, Edge, Seen, protocol
from ._faults import Fault, Faults
from ._registry import Registry

__all__ = ["LocalE2B"]

START_BOUND = 30.0
"""Seconds for the server to listen."""

STOP_BOUND = 60.0
"""Seconds for it to end all its sandboxes."""

HOST = "127.0.0.1"


class LocalE2B:
    """An E2B of one's own on this machine, for tests: use it with ``with``.

    It speaks E2B's protocol and runs everything in local sandboxes. It is no E2B product, and what
    it has not, it refuses.

    Args:
        port: To listen on, on loopback only; 0 takes a free one.
        api_key: The key that requests must carry; made up if ``None``.
        resources: Caps of each sandbox.
        limit: How many sandboxes there may be at once; one more is answered with 429.

    Example:
        >>> from sandboxio_testing.e2b import LocalE2B
        >>> with LocalE2B() as server:
        ...     print(sorted(server.environ))
        ['E2B_API_KEY', 'E2B_API_URL', 'E2B_SANDBOX_URL', 'NO_PROXY']
    """

    def __init__(
        self,
        *,
        port: int = 0,
        api_key: str | None = None,
        resources: Resources = Resources(processes=512),
        limit: int = 200,
    ) -> None:
        self.api_key = api_key or "e2b_" + secrets.token_hex(20)
        self.faults = Faults()
        self._port = port
        self._registry = Registry(resources, limit)
        self._connections = Connections()
        self._edge = Edge(application(self._registry, self.api_key), self.faults, self._connections)
        self._thread: threading.Thread | None = None
        self._server: uvicorn.Server | None = None
        self._socket: socket.socket | None = None
        self._listening = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        """Address of all three services."""
        return f"http://{HOST}:{self._port}"

    @property
    def environ(self) -> dict[str, str]:
        """The variables that make E2B's own SDKs use this server."""
        return {
            "E2B_API_KEY": self.api_key,
            "E2B_API_URL": self.url,
            "E2B_SANDBOX_URL": self.url,
            # Their HTTP client would send even this to a proxy.
            "NO_PROXY": f"{HOST},localhost",
        }

    @property
    def sandboxes(self) -> list[str]:
        """Ids of the sandboxes that exist."""
        return [sandbox.id for sandbox in self._registry.all()]

    @property
    def busy(self) -> bool:
        """Whether a sandbox is being made or ended just now."""
        return self._registry.busy

    def ends_at(self, sandbox_id: str) -> datetime:
        """Return when the lifetime of a sandbox is over."""
        return self._registry.get(sandbox_id).ends

    def local_id(self, sandbox_id: str) -> str:
        """Return the id of the local sandbox that one of ours runs in."""
        sandbox = self._registry.get(sandbox_id)
        assert sandbox.local is not None
        return sandbox.local.id

    def end_all(self) -> None:
        """End every sandbox, as the service would: whoever uses one is told that it is not found."""
        if self._loop is not None:
            # In a context of its own: the caller's may say that this is trio.
            ending = Context().run(
                asyncio.run_coroutine_threadsafe, self._registry.end_all(), self._loop
            )
            ending.result(STOP_BOUND)

    def seen(self) -> list[Seen]:
        """Return the requests that came, the oldest first."""
        return self._edge.seen()

    @property
    def errors(self) -> list[BaseException]:
        """What went wrong in the server itself; each was answered with 500."""
        return list(self._edge.errors)

    def add(self, fault: Fault) -> None:
        """Let something go wrong."""
        self.faults.add(fault)

    def start(self) -> None:
        """Start serving; returns when it listens."""
        # With the protocol named: only then does asyncio switch Nagle's algorithm off.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, self._port))
        self._socket.listen(1024)
        self._port = self._socket.getsockname()[1]
        self._registry.open()
        config = uvicorn.Config(
            self._edge,
            http=protocol(self._connections),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            timeout_keep_alive=120,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="local-e2b", daemon=True)
        self._thread.start()
        if not self._listening.wait(START_BOUND) or self._failure is not None:
            raise RuntimeError("the local E2B did not start") from self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # the thread ends here; `start` and `stop` tell
            self._failure = error
            self._listening.set()
            if not isinstance(error, Exception):
                raise

    async def _serve(self) -> None:
        assert self._server is not None
        assert self._socket is not None
        self._loop = asyncio.get_running_loop()
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not serving.done():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)
        self._listening.set()
        try:
            await serving
        finally:
            await self._registry.close()

    def stop(self) -> None:
        """End all sandboxes, and then the server."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(STOP_BOUND)
        if self._thread.is_alive():
            raise RuntimeError(f"the local E2B was still busy after {STOP_BOUND:g} s")
        self._server = None

    def __enter__(self) -> LocalE2B:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
