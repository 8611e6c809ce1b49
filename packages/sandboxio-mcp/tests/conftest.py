"""Servers as their clients meet them: processes of their own; and witnesses beside them."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

BOUND = 60.0
"""Seconds for an answer, or for anything to become true; a loaded machine is slow, not wrong."""

LONGEST_ANSWER = 4 * 1024 * 1024
"""Bytes of one line from a server."""

HANDSHAKE = "2025-11-25"
"""The latest protocol that has an `initialize`."""


class Raw:
    """A server's stdin and stdout, without any client in between."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdout is not None
        self.process = process
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._last = 0

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(data)

    async def read(self) -> Any:
        line = await self._lines.receive_until(b"\n", LONGEST_ANSWER)
        return json.loads(line)

    async def send(self, method: str, params: dict[str, Any] | None = None) -> int:
        self._last += 1
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params or {}}
        await self.write(json.dumps(message).encode() + b"\n")
        return self._last

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        number = await self.send(method, params)
        while True:
            answer = await self.read()
            if answer.get("id") == number:
                return answer

    async def start(self) -> Any:
        client = {"name": "test", "version": "1"}
        answer = await self.ask(
            "initialize",
            {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": client},
        )
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self.write(json.dumps(note).encode() + b"\n")
        return answer

    async def command(self, command: str) -> Any:
        answer = await self.ask(
            "tools/call", {"name": "run_command", "arguments": {"command": command}}
        )
        return answer["result"]

    async def hang(self, token: str) -> None:
        """Start a call that does not end by itself, and wait until it runs in the sandbox."""
        arguments = {"command": f"sleep {token}"}
        await self.send("tools/call", {"name": "run_command", "arguments": arguments})
        await until(lambda: alive(token))

    async def close_stdin(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()


class StartRaw(Protocol):
    """Starts a server on stdio, and kills it at the end if it is still there."""

    def __call__(
        self, *arguments: str, env: dict[str, str] | None = ..., program: tuple[str, ...] = ...
    ) -> AbstractAsyncContextManager[Raw]: ...


def alive(token: str) -> list[int]:
    """Return the processes of this machine, inside sandboxes too, that have a word in their arguments."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended meanwhile
            if token.encode() in arguments:
                found.append(int(entry.name))
    return found


async def until(true: Callable[[], object]) -> None:
    """Wait until something is true that no event tells about."""
    with anyio.fail_after(BOUND):
        while not true():  # noqa: ASYNC110 - what other processes do sets no event here
            await anyio.sleep(0.02)


@pytest.fixture(name="alive")
def _alive() -> Callable[[str], list[int]]:
    return alive


@pytest.fixture(name="until")
def _until() -> Callable[[Callable[[], object]], Awaitable[None]]:
    return until


@pytest.fixture
def token() -> str:
    """A duration for `sleep` that no other process of this machine has."""
    return f"3{secrets.randbelow(10**6):06d}.{secrets.randbelow(10**6):06d}1"


@pytest.fixture
def background(token: str) -> str:
    """A command that leaves `sleep` with that duration behind, and returns when it runs."""
    started = f"sleep {token} >/dev/null 2>&1 &"
    # As a word of its own: the shell that becomes it has it in its script.
    return f"{started} until grep -qzx sleep /proc/$!/cmdline; do sleep 0.01; done"


@pytest.fixture
def start_raw() -> StartRaw:
    """Start servers that are talked to without a client."""

    @asynccontextmanager
    async def start(
        *arguments: str,
        env: dict[str, str] | None = None,
        program: tuple[str, ...] = ("-m", "sandboxio_mcp"),
    ) -> AsyncGenerator[Raw, None]:
        process = await anyio.open_process(
            [sys.executable, *program, *arguments],
            stderr=None,
            env={**os.environ, **(env or {})},
        )
        try:
            with anyio.fail_after(BOUND):
                yield Raw(process)
        finally:
            if process.returncode is None:
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.aclose()

    return start


class Http:
    """A server over HTTP, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stderr is not None
        for line in process.stderr:
            if "serving http://" in line:
                self.url = line.split()[-1]
                break
        else:
            pytest.fail(f"the server did not start: {process.wait()}")
        self.port = int(self.url.split(":")[2].split("/")[0])

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.process.terminate()
        return self.process.wait(BOUND)


StartHttp = Callable[..., Http]


@pytest.fixture(scope="module")
def start_http() -> Generator[StartHttp, None, None]:
    """Start servers over HTTP that are stopped after the module."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, env: dict[str, str] | None = None) -> Http:
        process = subprocess.Popen(
            [
                sys.executable,
                *("-m", "sandboxio_mcp", "--transport", "streamable-http", "--port", "0"),
                *arguments,
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        started.append(process)
        return Http(process)

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(BOUND)
        finally:
            process.kill()
            assert process.stderr is not None
            process.stderr.close()
