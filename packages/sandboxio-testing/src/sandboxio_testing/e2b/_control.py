"""The control plane: sandboxes made, listed, extended and ended over REST."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ._registry import ApiError, Registry
from ._sandbox import ServedSandbox, stamp

__all__ = ["Control", "error_response"]

V2_TIMEOUT = 300
V1_TIMEOUT = 15
"""Seconds that a sandbox lives when nothing is asked for, by version of the API."""

MAX_PAGE = 100

Handler = Callable[[Request], Awaitable[Response]]


def error_response(error: ApiError) -> Response:
    """Return an error as the service writes it."""
    body = {"code": error.status, "message": error.message}
    return JSONResponse(body, error.status, headers=error.headers)


class Control:
    """Handlers of the control plane."""

    def __init__(self, registry: Registry, api_key: str) -> None:
        self._registry = registry
        self._api_key = api_key

    def routes(self) -> list[Route]:
        """Return the routes."""

        def route(path: str, method: str, handler: Handler) -> Route:
            return Route(path, self._guarded(handler), methods=[method])

        one = "/sandboxes/{sandbox_id}"
        return [
            route("/v2/sandboxes", "POST", self._create_v2),
            route("/sandboxes", "POST", self._create_v1),
            route("/v2/sandboxes", "GET", self._list_v2),
            route("/sandboxes", "GET", self._list_v1),
            route(one, "GET", self._detail),
            route(one, "DELETE", self._kill),
            route(f"/v2{one}/connect", "POST", self._connect),
            route(f"{one}/connect", "POST", self._connect),
            route(f"{one}/resume", "POST", self._connect),
            route(f"{one}/timeout", "POST", self._timeout),
            route(f"{one}/metrics", "GET", self._metrics),
            route(f"{one}/pause", "POST", self._unserved),
            route(f"{one}/network", "PUT", self._unserved),
            route(f"{one}/snapshots", "POST", self._unserved),
            route(f"{one}/fork", "POST", self._unserved),
            route("/snapshots", "GET", self._unserved),
            route("/volumes", "POST", self._unserved),
            route("/templates/{rest:path}", "DELETE", self._unserved),
        ]

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            try:
                key = request.headers.get("x-api-key")
                if not key:
                    raise ApiError(401, "Missing API key, set the X-API-KEY header.")
                if key != self._api_key:
                    raise ApiError(401, "Invalid API key, please visit the dashboard for a key.")
                return await handler(request)
            except ApiError as error:
                return error_response(error)

        return guarded

    async def _body(self, request: Request) -> dict[str, Any]:
        try:
            body: Any = json.loads(await request.body() or b"{}")
        except ValueError as error:
            raise ApiError(400, f"Invalid JSON: {error}") from error
        if not isinstance(body, dict):
            raise ApiError(400, "The body must be an object")
        return cast("dict[str, Any]", body)

    async def _create_v2(self, request: Request) -> Response:
        return await self._create(request, V2_TIMEOUT)

    async def _create_v1(self, request: Request) -> Response:
        return await self._create(request, V1_TIMEOUT)

    async def _create(self, request: Request, default: int) -> Response:
        key = request.headers.get("idempotency-key")
        sandbox = await self._registry.create(await self._body(request), key, default)
        return JSONResponse(sandbox.created(), 201)

    def _sandbox(self, request: Request) -> ServedSandbox:
        return self._registry.get(request.path_params["sandbox_id"])

    async def _detail(self, request: Request) -> Response:
        return JSONResponse(self._sandbox(request).full_detail())

    async def _kill(self, request: Request) -> Response:
        await self._registry.kill(self._sandbox(request).id)
        return Response(status_code=204)

    async def _connect(self, request: Request) -> Response:
        sandbox = self._sandbox(request)
        timeout = (await self._body(request)).get("timeout", V2_TIMEOUT)
        if not isinstance(timeout, int) or timeout <= 0:
            raise ApiError(400, "Timeout must be greater than 0")
        self._registry.extend(sandbox, timeout)
        return JSONResponse(sandbox.created())

    async def _timeout(self, request: Request) -> Response:
        sandbox = self._sandbox(request)
        self._registry.set_timeout(sandbox, int((await self._body(request)).get("timeout", 0)))
        return Response(status_code=204)

    async def _metrics(self, request: Request) -> Response:
        sandbox = self._sandbox(request)
        assert sandbox.running is not None
        used = await sandbox.running.envd.ask("metrics", {})
        entry = {
            "timestamp": stamp(sandbox.started),
            "timestampUnix": int(sandbox.started.timestamp()),
            "cpuCount": used["cpu_count"],
            "cpuUsedPct": 0.0,
            "memTotal": used["mem_total"],
            "memUsed": used["mem_used"],
            "memCache": used["mem_cache"],
            "diskTotal": used["disk_total"],
            "diskUsed": used["disk_used"],
        }
        return JSONResponse([entry])

    async def _unserved(self, request: Request) -> Response:
        raise ApiError(400, f"This local server does not serve {request.url.path}.")

    # ----- listing

    async def _list_v1(self, request: Request) -> Response:
        return JSONResponse([item.detail() for item in self._wanted(request)])

    async def _list_v2(self, request: Request) -> Response:
        items = self._wanted(request)
        total = len(items)
        limit = max(1, min(int(request.query_params.get("limit", MAX_PAGE)), MAX_PAGE))
        token = request.query_params.get("nextToken")
        if token:
            after = self._cursor(token)
            items = [item for item in items if (stamp(item.started), item.id) < after]
        headers = {"X-Total-Running": str(total)}
        if len(items) > limit:
            items = items[:limit]
            last = f"{stamp(items[-1].started)}__{items[-1].id}"
            headers["X-Next-Token"] = base64.urlsafe_b64encode(last.encode()).decode()
        return JSONResponse([item.detail() for item in items], headers=headers)

    def _cursor(self, token: str) -> tuple[str, str]:
        try:
            moment, _, sandbox_id = base64.urlsafe_b64decode(token).decode().partition("__")
        except ValueError as error:
            raise ApiError(400, "Invalid next token") from error
        return moment, sandbox_id

    def _wanted(self, request: Request) -> list[ServedSandbox]:
        states = request.query_params.get("state", "running,paused").split(",")
        if "running" not in states:
            return []
        wanted: dict[str, str] = {}
        for part in unquote(request.query_params.get("metadata", "")).split("&"):
            if part:
                key, equals, value = part.partition("=")
                if not equals or "=" in value:
                    raise ApiError(400, f"Error parsing metadata: {part}")
                wanted[unquote(key)] = unquote(value)
        return [i for i in self._registry.all() if wanted.items() <= i.metadata.items()]
