"""HTTP for the SDK through ssh programs: its own way there wants another package installed.

Each connection is one program, as the Docker CLI has it, and is kept for further calls.
"""

from __future__ import annotations

from collections.abc import Callable
from socket import socket
from typing import Any

import requests
import requests.adapters
import urllib3.connection
import urllib3.connectionpool

__all__ = ["TunnelAdapter"]

Dial = Callable[[], socket]


class TunnelConnection(urllib3.connection.HTTPConnection):
    """A connection that somebody else opens."""

    def __init__(self, dial: Dial, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._dial = dial
        self._seconds = timeout

    def connect(self) -> None:
        """Open it."""
        self.sock = self._dial()
        self.sock.settimeout(self._seconds)


class TunnelPool(urllib3.connectionpool.HTTPConnectionPool):
    """Such connections, kept for further calls."""

    def __init__(self, dial: Dial, timeout: float, size: int) -> None:
        super().__init__("localhost", timeout=timeout, maxsize=size)
        self._dial = dial
        self._seconds = timeout

    def _new_conn(self) -> Any:
        return TunnelConnection(self._dial, self._seconds)


class TunnelAdapter(requests.adapters.HTTPAdapter):
    """What the SDK's session sends its requests through.

    Args:
        dial: Opens a connection to the engine.
        timeout: Seconds that the engine may be silent in one call.
        size: How many connections are kept.
    """

    def __init__(self, dial: Dial, timeout: float, size: int) -> None:
        self._pool = TunnelPool(dial, timeout, size)
        super().__init__()

    def get_connection_with_tls_context(
        self, request: Any, verify: Any, proxies: Any = None, cert: Any = None
    ) -> TunnelPool:
        """Return the pool, whatever the address in the request."""
        return self._pool

    def get_connection(self, url: Any, proxies: Any = None) -> TunnelPool:
        """Return the pool; older versions of requests ask so."""
        return self._pool

    def request_url(self, request: Any, proxies: Any) -> str:
        """Return the path alone, as there is no proxy."""
        return str(request.path_url)

    def close(self) -> None:
        """Close what is kept."""
        self._pool.close()
        super().close()
