"""The code interpreter's HTTP service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from ._edge import Abort
from ._program import Ended, Message, Program, Refusal
from ._sandbox import Running, ServedSandbox

__all__ = ["serve"]

KEEPALIVE = 5.0
"""Seconds of silence after which an execution says that it lives."""


async def serve(request: Request, sandbox: ServedSandbox) -> Response:
    """Answer one request."""
    assert sandbox.running is not None
    running = sandbox.running
    parts = request.url.path.strip("/").split("/")
    try:
        if parts == ["execute"] and request.method == "POST":
            if request.headers.get("x-access-token") != sandbox.token:
                return PlainTextResponse("unauthorized access", 401)
            return await _execute(request, running)
        asked: Message = {"context_id": parts[1]} if len(parts) > 1 else {}
        if parts == ["contexts"]:
            op = "list" if request.method == "GET" else "create"
            asked = json.loads(await request.body() or b"{}")
        elif len(parts) == 2 and request.method == "DELETE":
            op = "delete"
        elif len(parts) == 3 and parts[2] == "restart" and request.method == "POST":
            op = "restart"
        else:
            return JSONResponse({"detail": "Not Found"}, 404)
        return JSONResponse(await (await running.interpreter()).ask(op, asked))
    except Refusal as refused:
        return PlainTextResponse(refused.error["text"], refused.error["status"])


async def _execute(request: Request, running: Running) -> Response:
    asked: Any = json.loads(await request.body() or b"{}")
    if "code" not in asked:
        detail = [{"type": "missing", "loc": ["body", "code"], "msg": "Field required"}]
        return JSONResponse({"detail": detail}, 422)
    program = await running.interpreter()
    lines: asyncio.Queue[Message] = asyncio.Queue()
    ident = await program.post("execute", asked, lines.put_nowait)
    answer = program.answer_of(ident)
    # A refusal is a status, so the first sign decides which kind of answer this is.
    first = asyncio.ensure_future(lines.get())
    await asyncio.wait({answer, first}, return_when=asyncio.FIRST_COMPLETED)
    if answer.done() and answer.exception() is not None:
        first.cancel()
        program.forget(ident)
        raise answer.exception() or AssertionError
    return StreamingResponse(_lines(program, ident, answer, first, lines))


async def _lines(
    program: Program,
    ident: int,
    answer: asyncio.Future[Any],
    first: asyncio.Future[Message],
    lines: asyncio.Queue[Message],
) -> AsyncIterator[bytes]:
    done = False
    upcoming = first
    try:
        while True:
            await asyncio.wait(
                {answer, upcoming}, timeout=KEEPALIVE, return_when=asyncio.FIRST_COMPLETED
            )
            if upcoming.done():
                yield _line(upcoming.result())
                upcoming = asyncio.ensure_future(lines.get())
            elif answer.done():
                break
            else:
                yield _line({"type": "keepalive"})
        done = True
        if answer.exception() is not None:
            raise Abort
        yield _line({"type": "end_of_execution"})
    finally:
        upcoming.cancel()
        program.forget(ident)
        if not done:
            # Its client went away, and that is how an execution is interrupted.
            program.spawn(_interrupt(program, ident))


async def _interrupt(program: Program, ident: int) -> None:
    try:
        await program.ask("interrupt", {"execution": ident})
    except (Ended, Refusal):
        return


def _line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"
