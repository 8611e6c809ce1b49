"""The server over HTTP: who is let in, whose sandbox it is, and when it ends."""

from __future__ import annotations

import http.client
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from sandboxio.errors import ConfigurationError
from sandboxio_mcp import HttpConfig

pytestmark = pytest.mark.slow

# Of this folder's conftest, which nothing can import by that name: the root has one, too.
Http = Any
StartHttp = Callable[..., Http]
Alive = Callable[[str], list[int]]
Until = Callable[[Callable[[], object]], Awaitable[None]]

BOUND = 60.0

TOKEN = "correct-horse-battery-staple"

LOCAL = ("--backend", "local://")

# What a request that was given up comes to goes to whoever asks by its number.
NUMBERS = itertools.count(1)

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop is enough: it is the client's, and the server is a process of its own."""
    return "asyncio"


@pytest.fixture(scope="module")
def server(start_http: StartHttp) -> Http:
    return start_http(*LOCAL, "--progress-interval", "0.2")


class Answer:
    """A status, headers, and a body that need not have an end."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        self.response = connection.getresponse()
        self.status = self.response.status

    def message(self) -> Any:
        """Return the next JSON-RPC message of the body, which is one or a stream of them."""
        if self.response.headers["content-type"] == "application/json":
            return json.loads(self.response.read())
        while line := self.response.readline():
            if line.startswith(b"data: "):
                return json.loads(line[len(b"data: ") :])
        pytest.fail("the stream ended")

    def close(self) -> None:
        self.response.close()
        self.connection.close()


def ask(
    server: Http,
    method: str = "initialize",
    params: dict[str, Any] | None = None,
    *,
    verb: str = "POST",
    path: str = "/mcp",
    session: str | None = None,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=BOUND)
    message = {
        "jsonrpc": "2.0",
        "id": next(NUMBERS),
        "method": method,
        "params": params or INITIALIZE,
    }
    sent = {
        "host": f"127.0.0.1:{server.port}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        **({} if session is None else {"mcp-session-id": session}),
        **(headers or {}),
    }
    data = json.dumps(message).encode() if body is None else body
    connection.putrequest(verb, path, skip_host=True)
    for name, value in sent.items():
        connection.putheader(name, value)
    connection.putheader("content-length", str(len(data) if verb == "POST" else 0))
    connection.endheaders(data if verb == "POST" else None)
    return Answer(connection)


@contextmanager
def asked(server: Http, *arguments: Any, **options: Any) -> Generator[Answer, None, None]:
    answer = ask(server, *arguments, **options)
    try:
        yield answer
    finally:
        answer.close()


def open_session(server: Http, **options: Any) -> str:
    with asked(server, **options) as answer:
        assert answer.status == 200
        assert answer.message()["result"]["serverInfo"]["name"] == "sandboxio"
        return str(answer.response.headers["mcp-session-id"])


def command(text: str) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": "run_command", "arguments": {"command": text}}


def run(server: Http, session: str, text: str) -> Any:
    with asked(server, *command(text), session=session) as answer:
        return answer.message()["result"]["structuredContent"]


def end(server: Http, session: str) -> None:
    with asked(server, verb="DELETE", session=session) as answer:
        assert answer.status == 200


# --- the official client


async def test_the_official_client_runs_code_and_hears_progress(server: Http) -> None:
    heard: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    with anyio.fail_after(BOUND):
        async with Client(server.url) as client:
            assert len((await client.list_tools()).tools) == 7
            arguments = {"code": "import time; time.sleep(1); print(6 * 7)"}
            result: Any = await client.call_tool("run_python", arguments, progress_callback=hear)
            assert result.structured_content["stdout"] == "42\n"
    assert any("running" in (message or "") for message in heard)


async def test_every_client_has_a_sandbox_of_its_own_which_ends_with_it(
    server: Http, alive: Alive, until: Until, token: str, background: str
) -> None:
    with anyio.fail_after(BOUND):
        async with Client(server.url) as one, Client(server.url) as other:
            await one.call_tool("write_file", {"path": "mine", "content": "x"})
            await one.call_tool("run_command", {"command": background})
            assert alive(token)
            listed: Any = await other.call_tool("list_files", {"path": "."})
            assert listed.structured_content["entries"] == []
        await until(lambda: not alive(token))


async def test_a_cancelled_call_ends_its_command_and_not_the_sandbox(
    server: Http, alive: Alive, until: Until, token: str
) -> None:
    with anyio.fail_after(BOUND):
        async with Client(server.url) as client:
            await client.call_tool("write_file", {"path": "kept", "content": "x"})
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "run_command", {"command": f"sleep {token}"})
                await until(lambda: alive(token))
                group.cancel_scope.cancel()
            await until(lambda: not alive(token))
            kept: Any = await client.call_tool("read_file", {"path": "kept"})
            assert kept.content[0].text == "x"


# --- clients that break off


async def test_a_client_that_breaks_off_loses_its_command_and_then_its_sandbox(
    server: Http, alive: Alive, until: Until, token: str, background: str
) -> None:
    session = open_session(server)
    assert run(server, session, background)["exit_code"] == 0
    running = ask(server, *command(f"sleep 1{token}"), session=session)
    await until(lambda: alive(f"1{token}"))
    running.close()
    await until(lambda: not alive(f"1{token}"))
    await until(lambda: not alive(token))
    with asked(server, *command("true"), session=session) as answer:
        assert answer.status == 404


async def test_a_client_whose_stream_is_still_open_has_not_left(
    server: Http, alive: Alive, until: Until, token: str, background: str
) -> None:
    session = open_session(server)
    listening = ask(server, verb="GET", session=session)
    assert listening.status == 200
    run(server, session, background)
    running = ask(server, *command(f"sleep 1{token}"), session=session)
    await until(lambda: alive(f"1{token}"))
    running.close()
    await until(lambda: not alive(f"1{token}"))
    assert run(server, session, "echo still here")["stdout"] == "still here\n"
    assert alive(token)
    listening.close()
    await until(lambda: not alive(token))


async def test_the_end_of_a_session_is_the_end_of_its_running_calls(
    server: Http, alive: Alive, until: Until, token: str
) -> None:
    session = open_session(server)
    with asked(server, *command(f"sleep {token}"), session=session):
        await until(lambda: alive(token))
        end(server, session)
        await until(lambda: not alive(token))


async def test_a_session_that_nobody_uses_ends(
    start_http: StartHttp, alive: Alive, until: Until, token: str, background: str
) -> None:
    server = start_http(*LOCAL, "--idle", "5", "--log-level", "info")
    session = open_session(server)
    run(server, session, background)
    await until(lambda: not alive(token))
    # To ask would keep it alive, so its end is waited for in the log.
    assert server.process.stderr is not None
    while f"Terminating session: {session}" not in server.process.stderr.readline():
        pass
    with asked(server, "ping", session=session) as answer:
        assert answer.status == 404


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_every_sandbox_before_the_server(
    start_http: StartHttp, alive: Alive, until: Until, token: str, signum: signal.Signals
) -> None:
    server = start_http(*LOCAL)
    running: list[Answer] = []
    for _ in range(2):
        session = open_session(server)
        running.append(ask(server, *command(f"setsid sleep {token}"), session=session))
    await until(lambda: len(alive(token)) >= 2)
    server.process.send_signal(signum)
    assert server.process.wait(BOUND) == 128 + signum
    assert not alive(token)
    for answer in running:
        answer.close()


async def test_a_server_that_is_killed_leaves_nothing(
    start_http: StartHttp, alive: Alive, until: Until, token: str
) -> None:
    server = start_http(*LOCAL)
    session = open_session(server)
    with asked(server, *command(f"setsid sleep {token}"), session=session):
        await until(lambda: alive(token))
        server.process.kill()
        server.process.wait(BOUND)
        await until(lambda: not alive(token))


# --- who is let in


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:80"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "localhost:80@evil.example"}, 421),
        ({"host": "[::1"}, 421),
        ({"host": "[::1]evil"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"host": "localhost"}, 200),
        ({"host": "LOCALHOST:1"}, 200),
        ({"host": "[::1]:8000"}, 200),
    ],
)
def test_host_and_origin_are_checked(server: Http, headers: dict[str, str], status: int) -> None:
    with asked(server, headers=headers) as answer:
        assert answer.status == status
        if status == 200:
            end(server, answer.response.headers["mcp-session-id"])


@pytest.mark.parametrize("verb", ["GET", "DELETE", "OPTIONS", "PUT"])
def test_host_and_origin_are_checked_for_every_method(server: Http, verb: str) -> None:
    with asked(server, verb=verb, headers={"host": "evil.example"}) as answer:
        assert answer.status == 421
    with asked(server, verb=verb, headers={"origin": "http://evil.example"}) as answer:
        assert answer.status == 403


def test_two_hosts_are_none(server: Http) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=BOUND)
    connection.putrequest("POST", "/mcp", skip_host=True)
    for name in ("localhost", "evil.example"):
        connection.putheader("host", name)
    connection.putheader("content-length", "0")
    connection.endheaders()
    answer = Answer(connection)
    assert answer.status in (400, 421)  # the parser refuses it already
    answer.close()


def test_allowed_hosts_and_origins_are_let_in_and_no_others(start_http: StartHttp) -> None:
    server = start_http(
        *LOCAL,
        *("--allowed-host", "mcp.example, other.example"),
        *("--allowed-origin", "https://app.example"),
    )
    for headers, status in (
        ({"host": "mcp.example", "origin": "https://app.example"}, 200),
        ({"host": "other.example:443"}, 200),
        ({"host": "mcp.example", "origin": "http://app.example"}, 403),
        ({"host": "sub.mcp.example"}, 421),
    ):
        with asked(server, headers=headers) as answer:
            assert answer.status == status


@pytest.fixture(scope="module")
def guarded(start_http: StartHttp) -> Http:
    return start_http(*LOCAL, "--host", "0.0.0.0", env={"SBX_MCP_TOKEN": TOKEN})


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        TOKEN,
        f"Basic {TOKEN}",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        "Bearer \xff",
    ],
)
@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
def test_without_the_token_nothing_is_answered(
    guarded: Http, verb: str, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    with asked(guarded, verb=verb, headers=headers) as answer:
        assert answer.status == 401
        assert answer.response.headers["www-authenticate"] == "Bearer"


def test_with_the_token_host_and_origin_are_checked_all_the_same(guarded: Http) -> None:
    token = {"authorization": f"Bearer {TOKEN}"}
    with asked(guarded, headers={**token, "host": "evil.example"}) as answer:
        assert answer.status == 421
    with asked(guarded, headers={**token, "origin": "http://evil.example"}) as answer:
        assert answer.status == 403


async def test_the_official_client_gets_in_with_the_token(guarded: Http) -> None:
    url = f"http://127.0.0.1:{guarded.port}/mcp"
    with anyio.fail_after(BOUND):
        async with httpx2.AsyncClient(
            headers={"authorization": f"Bearer {TOKEN}"}, timeout=BOUND
        ) as http_client:
            transport = streamable_http_client(url, http_client=http_client)
            async with Client(transport) as client:
                result: Any = await client.call_tool("run_python", {"code": "print(1)"})
                assert result.structured_content["stdout"] == "1\n"


def test_the_token_is_not_seen_inside_a_sandbox(guarded: Http) -> None:
    token = {"authorization": f"Bearer {TOKEN}"}
    session = open_session(guarded, headers=token)
    look = "env; cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline"
    with asked(guarded, *command(look), session=session, headers=token) as answer:
        assert TOKEN not in json.dumps(answer.message())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org", ""])
def test_any_address_but_loopback_needs_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match="no token"):
        HttpConfig(host=host)
    assert HttpConfig(host=host, token=TOKEN).token == TOKEN


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_needs_none(host: str) -> None:
    assert HttpConfig(host=host).token is None


@pytest.mark.parametrize(
    "token", ["", "short", "x" * 15, "with a space in it", "ü" * 20, "x\n" * 9]
)
def test_a_token_that_is_weak_or_no_token_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match="token must have"):
        HttpConfig(token=token)


def test_a_token_is_not_shown() -> None:
    assert TOKEN not in repr(HttpConfig(token=TOKEN))


def test_the_server_refuses_to_start_open_to_others() -> None:
    anywhere = ("--transport", "streamable-http", "--host", "0.0.0.0")
    done = subprocess.run(
        [sys.executable, "-m", "sandboxio_mcp", *anywhere],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert done.returncode == 1
    assert "SBX_E1000" in done.stderr
    assert "SBX_MCP_TOKEN" in done.stderr


# --- requests that are none


def test_a_protocol_without_sessions_is_refused_with_those_that_have_them(server: Http) -> None:
    with asked(server, headers={"mcp-protocol-version": "2026-07-28"}) as answer:
        assert answer.status == 400
        error = answer.message()["error"]
        assert error["code"] == -32022
        assert "2025-11-25" in error["data"]["supported"]


def test_what_is_no_request_is_refused_and_harms_nothing(server: Http) -> None:
    for options, status in (
        ({"path": "/"}, 404),
        ({"path": "/mcp/../admin"}, 404),
        ({"session": "0" * 32, "method": "ping"}, 404),
        ({"verb": "GET"}, 400),
        ({"verb": "DELETE"}, 400),
        ({"verb": "PUT"}, 400),
        ({"method": "tools/list"}, 400),
        ({"body": b"{"}, 400),
        ({"body": b"[]"}, 400),
        ({"body": b"[" * 100_000}, 400),
        ({"headers": {"content-type": "text/plain"}}, 400),
        ({"headers": {"accept": "text/html"}}, 406),
        ({"body": b" " * (4 * 1024 * 1024 + 1)}, 413),
    ):
        with asked(server, **options) as answer:  # type: ignore[arg-type]
            assert answer.status == status, options
    session = open_session(server)
    assert run(server, session, "echo fine")["stdout"] == "fine\n"
    end(server, session)


async def test_sessions_are_bounded_and_their_room_is_free_when_they_end(
    start_http: StartHttp, until: Until
) -> None:
    server = start_http(*LOCAL, "--max-sessions", "2")
    first, _ = open_session(server), open_session(server)
    with asked(server) as answer:
        assert answer.status == 503
    # A request that opens no session takes no room either.
    end(server, first)

    def has_room() -> bool:
        with asked(server) as answer:
            return answer.status == 200

    await until(has_room)
