"""The Connect protocol as envd speaks it: JSON, in envelopes where a call streams."""

from __future__ import annotations

import json
import struct
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response

__all__ = ["CONTENT_TYPE", "STATUSES", "end", "envelope", "messages", "refusal"]

CONTENT_TYPE = "application/connect+json"

HEADER = struct.Struct(">BI")
MAX_MESSAGE = 64 << 20

STATUSES = {
    "canceled": 499,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "unauthenticated": 401,
}


def envelope(message: dict[str, Any], flags: int = 0) -> bytes:
    """Return a message of a stream."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return HEADER.pack(flags, len(body)) + body


def end(error: dict[str, Any] | None = None) -> bytes:
    """Return the end of a stream."""
    return envelope({} if error is None else {"error": error}, flags=2)


def refusal(error: dict[str, Any]) -> Response:
    """Return the answer of a call that does not stream and failed."""
    status = STATUSES.get(error["code"], 500)
    return Response(json.dumps(error), status, media_type="application/json")


async def messages(body: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of a streamed request body as they come.

    Raises:
        ValueError: It is something else.
    """
    buffer = bytearray()
    async for piece in body:
        buffer += piece
        while len(buffer) >= HEADER.size:
            flags, length = HEADER.unpack_from(buffer)
            if length > MAX_MESSAGE or flags not in (0, 2):
                raise ValueError("not an envelope")
            if len(buffer) < HEADER.size + length:
                break
            payload = bytes(buffer[HEADER.size : HEADER.size + length])
            del buffer[: HEADER.size + length]
            if flags == 0:
                yield json.loads(payload)
