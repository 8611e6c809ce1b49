"""What goes over the wire when something goes wrong, byte by byte."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Generator
from typing import Any

import pytest
from e2b_code_interpreter import AsyncSandbox

from sandboxio_testing.e2b import Fault, LocalE2B

BOUND = 30.0


@pytest.fixture(autouse=True)
def server(local_e2b: LocalE2B) -> Generator[LocalE2B, None, None]:
    before = len(local_e2b.errors)
    yield local_e2b
    local_e2b.end_all()
    assert len(local_e2b.errors) == before, local_e2b.errors[before:]


def made() -> tuple[str, str]:
    """Create a sandbox; returns its id and its token."""

    async def create() -> tuple[str, str]:
        sandbox = await AsyncSandbox.create(timeout=60, allow_internet_access=False)
        return sandbox.sandbox_id, sandbox._envd_access_token or ""

    return asyncio.run(create())


def request(server: LocalE2B, line: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """Return a request as bytes."""
    host = server.url.partition("//")[2]
    fields = {"Host": host, "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{line} HTTP/1.1\r\n{head}\r\n".encode() + body


def connected(server: LocalE2B) -> socket.socket:
    host, _, port = server.url.partition("//")[2].partition(":")
    return socket.create_connection((host, int(port)), timeout=BOUND)


def rest_of(connection: socket.socket) -> bytes:
    """Return all that comes until the other side ends, cleanly or not."""
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


@pytest.mark.parametrize("line", ["GET /v2/sandboxes", "GET /sandboxes/i1", "POST /v2/sandboxes"])
@pytest.mark.parametrize("drop", ["before", "head"])
def test_dropped_connection_says_nothing_at_all(server: LocalE2B, line: str, drop: Any) -> None:
    """An answer of 500 before the end would be one, and clients would keep the connection."""
    server.add(Fault(route=line, drop=drop))
    with connected(server) as connection:
        connection.sendall(request(server, line, {"X-API-KEY": server.api_key}, b"{}"))
        assert rest_of(connection) == b""


def test_stream_of_a_sandbox_that_is_ended_has_no_end(server: LocalE2B) -> None:
    """Neither the last chunk nor another answer: it just breaks off."""
    sandbox_id, token = made()
    ids = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "49983", "X-Access-Token": token}
    asked = json.dumps({"process": {"cmd": "/bin/sleep", "args": ["60"]}}).encode()
    headers = {**ids, "Content-Type": "application/connect+json"}
    with connected(server) as connection:
        envelope = struct.pack(">BI", 0, len(asked)) + asked
        line = "POST /process.Process/Start"
        connection.sendall(request(server, line, headers, envelope))
        data = b""
        while b'"start"' not in data:
            data += connection.recv(65536)
        server.end_all()
        data += rest_of(connection)
    assert data.startswith(b"HTTP/1.1 200")
    assert data.count(b"HTTP/1.1") == 1
    assert not data.endswith(b"0\r\n\r\n")


def test_bodies_for_sandboxes_are_not_remembered(server: LocalE2B) -> None:
    """They may be files of any size, and a server that keeps them grows."""
    sandbox_id, token = made()
    ids = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "49983", "X-Access-Token": token}
    with connected(server) as connection:
        connection.sendall(
            request(server, "POST /filesystem.Filesystem/Stat", ids, b'{"path":"/"}')
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    bodies = {seen.path: seen.body for seen in server.seen()}
    assert bodies["/filesystem.Filesystem/Stat"] == b""
    assert b"templateID" in bodies["/v2/sandboxes"]
