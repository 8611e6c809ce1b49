"""Who may talk to the HTTP server at all; asked before anything of a request is read."""

from __future__ import annotations

import hashlib
import hmac

from ._asgi import App, Receive, Scope, Send, answer, header
from ._config import HttpConfig

__all__ = ["Guard"]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """Checks Host, Origin and token, in this order, and passes on what is in order.

    The Host header keeps out pages whose name was rebound to this machine (their browser sends
    their name), the Origin header all pages that were not named, and the token everybody else.
    """

    def __init__(self, app: App, config: HttpConfig, path: str) -> None:
        self._app = app
        self._path = path
        self._hosts = LOOPBACK | {config.host.lower()} | {h.lower() for h in config.allowed_hosts}
        self._origins = frozenset(config.allowed_origins)
        self._token = None if config.token is None else _digest(config.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return  # uvicorn is told to serve nothing else
        if _name(header(scope, "host")) not in self._hosts:
            await answer(send, 421, "This Host is not served here; see --allowed-host.\n")
        elif not self._is_welcome_origin(scope):
            await answer(send, 403, "This Origin is not welcome; see --allowed-origin.\n")
        elif not self._has_token(scope):
            wanted = (("www-authenticate", "Bearer"),)
            await answer(send, 401, "A bearer token is needed.\n", headers=wanted)
        elif scope["path"] != self._path:
            await answer(send, 404, f"MCP is served at {self._path}\n")
        else:
            await self._app(scope, receive, send)

    def _is_welcome_origin(self, scope: Scope) -> bool:
        if not any(name == b"origin" for name, _ in scope["headers"]):
            return True  # no browser
        return header(scope, "origin") in self._origins

    def _has_token(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        scheme, _, token = (header(scope, "authorization") or "").partition(" ")
        # Digests have one length, so that the time of the comparison tells not even that.
        given = _digest(token.strip())
        return hmac.compare_digest(given, self._token) and scheme.lower() == "bearer"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _name(host: str | None) -> str | None:
    """Return a Host header without its port, which a container or a proxy may change."""
    if host is None:
        return None
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            return None
        return name.lower()
    name, colon, port = host.partition(":")
    if colon and not port.isdigit():
        return None
    return name.lower()
