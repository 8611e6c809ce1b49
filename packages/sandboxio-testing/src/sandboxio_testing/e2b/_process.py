"""envd's process service: commands and terminals, as streams of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ._connect import CONTENT_TYPE, end, envelope, messages, refusal
from ._edge import Abort
from ._program import Ended, Refusal
from ._sandbox import Running, ServedProcess, ServedSandbox

__all__ = ["serve"]

KEEPALIVE = 90.0
"""Seconds of silence after which a stream says that it lives, unless the client asks for less."""

DEADLINE = {"code": "deadline_exceeded", "message": "context deadline exceeded"}


async def serve(request: Request, sandbox: ServedSandbox, method: str) -> Response:
    """Answer one call of the service."""
    assert sandbox.running is not None
    running = sandbox.running
    if method in ("Start", "Connect"):
        asked = [message async for message in messages(request.stream())]
        keepalive = float(request.headers.get("keepalive-ping-interval", KEEPALIVE))
        deadline = int(request.headers.get("connect-timeout-ms", 0)) / 1000 or None
        body = (
            _start(running, asked[0], sandbox.envs, keepalive, deadline)
            if method == "Start"
            else _connect(running, asked[0], keepalive, deadline)
        )
        return StreamingResponse(body, media_type=CONTENT_TYPE)
    if method == "StreamInput":
        return await _stream_input(request, running)
    asked_once: Any = json.loads(await request.body() or b"{}")
    if method == "List":
        return _answered({"processes": _list(running)} if _list(running) else {})
    selected = {**asked_once, "pid": _pid(asked_once)}
    try:
        return _answered(await running.envd.ask(method, selected))
    except Refusal as error:
        return refusal(error.error)


def _answered(body: dict[str, Any]) -> Response:
    return Response(json.dumps(body), media_type="application/json")


def _list(running: Running) -> list[dict[str, Any]]:
    return [
        {"config": process.config, "pid": process.pid}
        for process in running.processes.values()
        if process.end is None
    ]


def _pid(message: dict[str, Any]) -> int:
    return int(message.get("process", {}).get("pid", 0))


async def _start(
    running: Running,
    asked: dict[str, Any],
    envs: dict[str, str],
    keepalive: float,
    deadline: float | None,
) -> AsyncIterator[bytes]:
    try:
        process = await running.start_process(asked, envs)
    except Refusal as error:
        yield end(error.error)
        return
    except Ended:
        raise Abort from None
    if deadline is not None:
        # envd kills at the deadline whether or not anybody still listens.
        asyncio.get_running_loop().call_later(
            deadline, lambda: asyncio.ensure_future(_kill(running, process))
        )
    async for piece in _events(running, process, keepalive, deadline, claim=True):
        yield piece


async def _kill(running: Running, process: ServedProcess) -> None:
    if process.end is None:
        try:
            await running.envd.ask("SendSignal", {"pid": process.pid, "signal": "SIGNAL_SIGKILL"})
        except (Refusal, Ended):
            return


async def _connect(
    running: Running, asked: dict[str, Any], keepalive: float, deadline: float | None
) -> AsyncIterator[bytes]:
    process = running.processes.get(_pid(asked))
    if process is None:
        message = f"process with pid {_pid(asked)} not found"
        yield end({"code": "not_found", "message": message})
        return
    async for piece in _events(running, process, keepalive, deadline, claim=False):
        yield piece


async def _events(
    running: Running,
    process: ServedProcess,
    keepalive: float,
    deadline: float | None,
    *,
    claim: bool,
) -> AsyncIterator[bytes]:
    with process.subscribed() as queue:
        if claim:
            running.claim(process)
        yield envelope({"event": {"start": {"pid": process.pid}}})
        if running.gone.is_set():
            raise Abort
        try:
            async with asyncio.timeout(deadline):
                async for event in running.events(process, queue, keepalive):
                    if "gone" in event:
                        raise Abort
                    yield envelope({"event": event})
        except TimeoutError:
            yield end(DEADLINE)
            return
        yield end()


async def _stream_input(request: Request, running: Running) -> Response:
    pid = 0
    try:
        async for message in messages(request.stream()):
            if "start" in message:
                pid = _pid(message["start"])
            elif "data" in message:
                asked = {"pid": pid, "input": message["data"]["input"]}
                await running.envd.ask("SendInput", asked)
        body = envelope({}) + end()
    except Refusal as error:
        body = end(error.error)
    return Response(body, media_type=CONTENT_TYPE)
