"""All three services on one origin, told apart as the real edge does it: by headers."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router

from . import _code, _files, _process
from ._connect import refusal
from ._control import Control
from ._edge import Abort
from ._program import Ended, Refusal
from ._registry import Registry
from ._sandbox import ServedSandbox

__all__ = ["application"]

ENVD_PORT = "49983"
CODE_PORT = "49999"

USER_HEADER = "Basic dXNlcjo="  # "user:"

STREAMS = ("Start", "Connect", "StreamInput", "WatchDir")


def application(registry: Registry, api_key: str) -> Router:
    """Return the application.

    A bare router: an application's own middleware would answer 500 before a connection is aborted.
    """
    sandboxes = InSandbox(registry)
    methods = ["GET", "POST", "DELETE", "PUT"]
    return Router(
        routes=[
            *Control(registry, api_key).routes(),
            Route("/{path:path}", sandboxes.serve, methods=methods),
        ]
    )


class InSandbox:
    """Requests to services inside a sandbox."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def serve(self, request: Request) -> Response:
        """Answer one request."""
        sandbox_id = request.headers.get("e2b-sandbox-id")
        port = request.headers.get("e2b-sandbox-port")
        if sandbox_id is None and port is None and request.url.path == "/files":
            return await self._by_signature(request)
        if sandbox_id is None and port is None:
            return health(request)
        if sandbox_id is None or port is None:
            return PlainTextResponse("missing header", 400)
        sandbox = self._registry.find(sandbox_id)
        if sandbox is None or sandbox.running is None or sandbox.running.gone.is_set():
            body = {"sandboxId": sandbox_id, "message": "The sandbox was not found", "code": 502}
            return JSONResponse(body, 502)
        try:
            if port == ENVD_PORT:
                return await envd(request, sandbox)
            if port == CODE_PORT:
                if request.url.path == "/health":
                    return JSONResponse("OK")
                return await _code.serve(request, sandbox)
        except Ended:
            raise Abort from None
        message = "The sandbox is running but port is not open"
        body = {"sandboxId": sandbox_id, "message": message, "port": int(port), "code": 502}
        return JSONResponse(body, 502)

    async def _by_signature(self, request: Request) -> Response:
        for sandbox in self._registry.all():
            if _files.signed(request, sandbox):
                return await _files.files(request, sandbox)
        return _files.error(401, "missing or invalid signature query parameter")


def health(request: Request) -> Response:
    """Answer what belongs to no sandbox."""
    if request.url.path == "/health":
        return PlainTextResponse("Health check successful")
    return JSONResponse({"code": 404, "message": "Not Found"}, 404)


async def envd(request: Request, sandbox: ServedSandbox) -> Response:
    """Answer a request to envd."""
    path = request.url.path
    if path == "/health":
        return Response(status_code=204)
    if path == "/files":
        return await _files.files(request, sandbox)
    if request.headers.get("x-access-token") != sandbox.token:
        message = "unauthorized access, please provide a valid access token or method signing"
        return _files.error(401, f"{message} if supported")
    if path == "/envs":
        return JSONResponse({"E2B_SANDBOX": "true", **sandbox.envs})
    if path == "/metrics":
        assert sandbox.running is not None
        return JSONResponse(await sandbox.running.envd.ask("metrics", {}))
    service, _, method = path.strip("/").partition("/")
    if request.headers.get("authorization", USER_HEADER) != USER_HEADER:
        refused = {
            "code": "unauthenticated",
            "message": "invalid username: only 'user' exists here",
        }
        return _rpc_refusal(method, refused)
    if service == "process.Process":
        return await _process.serve(request, sandbox, method)
    if service == "filesystem.Filesystem":
        return await filesystem(request, sandbox, method)
    return PlainTextResponse("404 page not found", 404)


def _rpc_refusal(method: str, error: dict[str, str]) -> Response:
    from ._connect import CONTENT_TYPE, end

    if method in STREAMS:
        return Response(end(error), media_type=CONTENT_TYPE)
    return refusal(error)


async def filesystem(request: Request, sandbox: ServedSandbox, method: str) -> Response:
    """Answer a call of envd's filesystem service."""
    if method not in ("Stat", "ListDir", "MakeDir", "Move", "Remove"):
        message = f"this local server does not serve {method}"
        return _rpc_refusal(method, {"code": "unimplemented", "message": message})
    assert sandbox.running is not None
    try:
        answer = await sandbox.running.envd.ask(method, json.loads(await request.body() or b"{}"))
    except Refusal as error:
        return refusal(error.error)
    return Response(json.dumps(answer), media_type="application/json")
