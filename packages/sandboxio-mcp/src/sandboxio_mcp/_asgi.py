"""The few ASGI types, and how to answer without a framework."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["App", "Message", "Receive", "Scope", "Send", "answer", "header", "json_rpc_error"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def header(scope: Scope, name: str) -> str | None:
    """Return a header's value; ``None`` if there is none, and also if there is more than one."""
    wanted = name.lower().encode()
    values = [value for key, value in scope["headers"] if key == wanted]
    return values[0].decode("latin-1") if len(values) == 1 else None


async def answer(
    send: Send,
    status: int,
    body: str,
    *,
    content_type: str = "text/plain; charset=utf-8",
    headers: tuple[tuple[str, str], ...] = (),
) -> None:
    """Send a whole answer."""
    data = body.encode()
    pairs = [("content-type", content_type), ("content-length", str(len(data))), *headers]
    encoded = [(name.encode(), value.encode()) for name, value in pairs]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": data, "more_body": False})


async def json_rpc_error(
    send: Send, status: int, code: int, message: str, data: dict[str, Any] | None = None
) -> None:
    """Send an error of JSON-RPC that belongs to no request."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    await answer(send, status, body, content_type="application/json")
