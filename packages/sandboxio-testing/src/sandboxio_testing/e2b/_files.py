"""envd's HTTP side: health, files, and what the code interpreter asks it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import os
import tempfile
import time
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from starlette.background import BackgroundTask
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response

from sandboxio import FileSystemError, PathNotFound, ResourceLimitExceeded

from ._connect import STATUSES
from ._program import Refusal
from ._sandbox import ServedSandbox

__all__ = ["error", "files", "signed"]


def error(status: int, message: str) -> Response:
    """Return an error as envd writes it."""
    return JSONResponse({"code": status, "message": message}, status)


def signed(request: Request, sandbox: ServedSandbox) -> bool:
    """Say whether a request carries a valid signature of its path."""
    query = request.query_params
    given = query.get("signature")
    if given is None:
        return False
    operation = "read" if request.method == "GET" else "write"
    parts = [query.get("path", ""), operation, query.get("username", ""), sandbox.token]
    expiry = query.get("signature_expiration")
    if expiry is not None:
        if not expiry.isdigit() or int(expiry) < time.time():
            return False
        parts.append(expiry)
    digest = base64.b64encode(hashlib.sha256(":".join(parts).encode()).digest()).decode()
    return hmac.compare_digest(given, "v1_" + digest.rstrip("="))


async def files(request: Request, sandbox: ServedSandbox) -> Response:
    """Serve ``/files``."""
    token = request.headers.get("x-access-token")
    if token is None and not signed(request, sandbox):
        return error(401, "missing signature query parameter")
    if token is not None and token != sandbox.token:
        return error(401, "access token present in header but does not match")
    if request.query_params.get("username", "user") != "user":
        name = request.query_params["username"]
        return error(401, f"error looking up user '{name}': this local server has only 'user'")
    try:
        if request.method == "GET":
            return await _download(request, sandbox)
        return await _upload(request, sandbox)
    except Refusal as refused:
        return error(STATUSES.get(refused.error["code"], 500), refused.error["message"])
    except PathNotFound as failed:
        return error(404, failed.message)
    except ResourceLimitExceeded as failed:
        return error(507, failed.message)
    except FileSystemError as failed:
        return error(500, failed.message)


async def _download(request: Request, sandbox: ServedSandbox) -> Response:
    assert sandbox.running is not None
    assert sandbox.local is not None
    path = request.query_params.get("path", "")
    found = await sandbox.running.envd.ask("locate", {"path": path})
    copy = _new_file()
    try:
        await sandbox.local.files.download(found["path"], copy)
    except BaseException:
        copy.unlink()
        raise
    name = quote(PurePosixPath(path).name)
    headers = {"Content-Disposition": f"inline; filename*=utf-8''{name}", "Vary": "Accept-Encoding"}
    return FileResponse(
        copy,
        media_type="application/octet-stream",
        headers=headers,
        background=BackgroundTask(lambda: copy.unlink(missing_ok=True)),
    )


async def _upload(request: Request, sandbox: ServedSandbox) -> Response:
    path = request.query_params.get("path")
    kind = request.headers.get("content-type", "").partition(";")[0]
    entries: list[dict[str, str]] = []
    if kind == "multipart/form-data":
        async with request.form(max_files=10_000) as form:
            for part in form.getlist("file"):
                if isinstance(part, UploadFile):
                    content = iter_upload(part)
                    entries.append(await _store(sandbox, path or part.filename or "", content))
    elif kind == "application/octet-stream":
        if not path:
            return error(400, "path is required")
        packed = request.headers.get("content-encoding") == "gzip"
        entries.append(await _store(sandbox, path, request.stream(), packed=packed))
    else:
        return error(400, f"unsupported content type: {kind}")
    # The service answers with this content type, and the SDK has to live with it.
    return PlainTextResponse(json.dumps(entries))


async def iter_upload(part: UploadFile) -> AsyncIterator[bytes]:
    """Yield what was uploaded in pieces."""
    while data := await part.read(1 << 20):
        yield data


async def _store(
    sandbox: ServedSandbox, path: str, content: AsyncIterable[bytes], *, packed: bool = False
) -> dict[str, str]:
    assert sandbox.running is not None
    assert sandbox.local is not None
    target = (await sandbox.running.envd.ask("parents", {"path": path}))["path"]
    copy = _new_file()
    try:
        with copy.open("wb") as file:
            async for piece in content:
                file.write(piece)
        if packed:
            _unpack(copy)
        copy.chmod(0o644)
        await sandbox.local.files.upload(copy, target)
    finally:
        copy.unlink(missing_ok=True)
    return {"name": PurePosixPath(target).name, "path": target, "type": "file"}


def _new_file() -> Path:
    """Return a new file of the host, which content goes through so that neither side holds it."""
    handle, name = tempfile.mkstemp(prefix="sandboxio-e2b-")
    os.close(handle)
    return Path(name)


def _unpack(copy: Path) -> None:
    copy.write_bytes(gzip.decompress(copy.read_bytes()))
