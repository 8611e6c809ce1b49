"""The way to the guest of one sandbox: a background command of E2B's that carries a byte stream.

Why a guest at all, when E2B can run commands by itself: E2B decodes output and loses what is not
UTF-8, kills one process and never its children, starts every command through a login shell, and
forgets the output of a command whose stream was cut. The guest has none of these faults, it is
the same program that local sandboxes and containers are driven by, and it is quicker: a command
costs one small request instead of a new stream and a shell. What E2B adds is a stream to it, and
that is here: the bytes of a socket become requests that write to the command's stdin, and its
stdout becomes bytes again (see inside/bridge.py). A sandbox whose template has no Python is
refused with that reason.

A connection may break at any time. Then nothing that ran over it is trusted: the relay inside is
killed, upon which the guest kills the commands of that connection, and a new one is made.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING

from sandboxio.errors import (
    CreationError,
    SandboxError,
    SandboxGone,
    SandboxUnreachable,
)
from sandboxio.spi import GUEST_PROGRAM, SocketTransport

if TYPE_CHECKING:
    from sandboxio_e2b._client import Client, Command, Native

__all__ = ["Link", "LinkTransport"]

START_BOUND = 30.0
"""Seconds for E2B to start the relay; it takes a fraction of one."""

SEND_BOUND = 30.0
"""Seconds for E2B to take a piece of input; the relay inside always reads."""

VERDICT_BOUND = 3.0
"""Seconds to find out whether a sandbox still exists, once its connection is broken."""

LIFETIME_SLACK = 0.5
"""Seconds before the end of a sandbox in which its guest may end already, by a clock of its own."""

ASK_PAUSE = 0.1
"""Seconds between two such questions, when the first got no answer."""

KILL_BOUND = 3.0
"""Seconds for E2B to kill the relay of a broken connection."""

SEND_SIZE = 1 << 19
"""Bytes of input in one request; a window of the guest's protocol in a few of them."""

STDERR_KEPT = 2000
"""Characters of what the relay wrote to stderr that an error message may show."""

BOOT = """\
import os,json
def r(n):
 d=b""
 while len(d)<n:
  c=os.read(0,n-len(d))
  if not c:raise SystemExit(1)
  d+=c
 return d
p=json.loads(r(int(r(8))))
exec(compile(p["bridge"],"bridge","exec"),{"REQUEST":p["request"],"GUEST":p["guest"]})
"""


class Link:
    """One connection to a guest. Made and driven on the portal's loop; `ours` is read anywhere."""

    def __init__(
        self, client: Client, native: Native, path: str, mode: str, remaining: Callable[[], float]
    ) -> None:
        """Prepare a link; nothing is started yet.

        Args:
            client: E2B.
            native: The sandbox.
            path: Of the guest's socket inside.
            mode: ``"start"`` to start a guest if there is none, ``"join"`` to take one as it is.
            remaining: Tells how many seconds of lifetime the sandbox has left.
        """
        self._client = client
        self._native = native
        self._request = {"socket": path, "mode": mode}
        self._remaining = remaining
        self.ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        self._command: Command | None = None
        self._stderr = ""
        self._verdict: Callable[[], SandboxError] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False
        self._broken = False
        self._judged = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether the connection has ended."""
        return self._closed or self._broken

    def verdict(self) -> SandboxError | None:
        """Return why it ended, as an error to raise."""
        return None if self._verdict is None else self._verdict()

    async def judged(self) -> None:
        """Return when it is known why it ended, if it has."""
        if self._broken:
            await self._judged.wait()

    async def run(self) -> None:
        """Connect, and relay until either side ends; raises nothing."""
        try:
            await self._start()
            assert self._command is not None
            self._tasks = [
                asyncio.create_task(self._inwards()),
                asyncio.create_task(self._wait(self._command)),
            ]
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises ends the connection
            await self._fail(error)
        finally:
            for task in self._tasks:
                task.cancel()
            self._theirs.close()
            self._broken = True
            self._judged.set()

    async def _start(self) -> None:
        native = self._native
        source = resources.files("sandboxio_e2b.inside").joinpath("bridge.py").read_text()
        payload = json.dumps(
            {"request": self._request, "bridge": source, "guest": GUEST_PROGRAM.read_text()}
        ).encode()
        command = f"exec python3 -I -S -B -c {shlex.quote(BOOT)}"
        self._command = await self._client.run(
            native, command, self._on_stdout, self._on_stderr, START_BOUND
        )
        await self._command.send(b"%8d" % len(payload) + payload, SEND_BOUND)

    async def _on_stdout(self, text: str) -> None:
        try:
            data = text.encode("latin-1")
        except UnicodeEncodeError:
            # Not what a relay writes; the guest's protocol is what judges the sandbox for it.
            data = text.encode()
        await asyncio.get_running_loop().sock_sendall(self._theirs, data)

    async def _on_stderr(self, text: str) -> None:
        self._stderr = (self._stderr + text)[-STDERR_KEPT:]

    async def _inwards(self) -> None:
        assert self._command is not None
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(self._theirs, SEND_SIZE):
            await self._command.send(data, SEND_BOUND)

    async def _wait(self, command: Command) -> None:
        code = await command.wait()
        raise _Ended(code, self._stderr)

    async def _fail(self, error: Exception) -> None:
        """Say why the connection ended: the sandbox is gone, or only the way to it is."""
        self._broken = True
        verdict: Callable[[], SandboxError]
        if isinstance(error, _Ended) and error.code == 127:
            verdict = _no_python
        elif isinstance(error, SandboxGone) or self._remaining() < LIFETIME_SLACK:
            verdict = _gone
        else:
            verdict = await self._ask(error)
        cause = error

        def made() -> SandboxError:
            failure = verdict()
            failure.__cause__ = cause
            return failure

        if not self._closed:
            self._verdict = made

    async def _ask(self, error: Exception) -> Callable[[], SandboxError]:
        try:
            async with asyncio.timeout(VERDICT_BOUND):
                if not await self._exists():
                    return _gone
        except TimeoutError:
            pass  # E2B as a whole does not answer, which is no worse than what is said below
        why = error.message if isinstance(error, SandboxError) else str(error)
        return lambda: SandboxUnreachable(
            f"The connection to the sandbox broke: {why}",
            hint="Call again: the sandbox may be there, but what ran over that connection is lost.",
        )

    async def _exists(self) -> bool:
        """Ask E2B until it answers; the caller bounds it."""
        while True:
            try:
                return await self._client.info(self._native.sandbox_id) is not None
            except SandboxError:
                # A connection that has just died may be the one that the SDK takes for this.
                await asyncio.sleep(ASK_PAUSE)

    async def cut(self) -> None:
        """Kill the relay inside, so that the guest ends what was started over it."""
        if self._command is not None:
            await self._command.kill(KILL_BOUND)

    async def close(self) -> None:
        """Let go of the connection."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._command is not None:
            await self._command.let_go()


class _Ended(Exception):
    """The relay ended by itself, so the guest has ended or never began."""

    def __init__(self, code: int, stderr: str) -> None:
        super().__init__(f"the guest's relay ended with status {code}. {stderr.strip()}")
        self.code = code


def _gone() -> SandboxError:
    return SandboxGone(
        "The sandbox does not exist any more: it was ended, or its lifetime is over."
    )


def _no_python() -> SandboxError:
    return CreationError(
        "The template of this sandbox has no python3, which sandboxio needs inside.",
        hint="Add Python 3.8 or newer to the template, or use code-interpreter-v1.",
        retryable=False,
    )


class LinkTransport:
    """The near end of a `Link`: a stream that says why it ended."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._socket = SocketTransport(link.ours)
        self._kept = b""
        self._closed = False

    async def first_line(self, limit: int) -> bytes:
        """Return the line that comes before everything else, or what came of it."""
        data = bytearray()
        while b"\n" not in data and len(data) <= limit:
            piece = await self.receive()
            if not piece:
                break
            data += piece
        line, _, rest = bytes(data).partition(b"\n")
        self._kept = rest
        return line

    async def receive(self) -> bytes:
        """Wait for bytes and return them.

        Raises:
            SandboxGone: The sandbox does not exist any more.
            SandboxUnreachable: Only the connection has ended.
        """
        if self._kept:
            kept, self._kept = self._kept, b""
            return kept
        try:
            data = await self._socket.receive()
        except OSError:
            data = b""  # the far end was closed before it had read everything
        if data:
            return data
        self._socket.close()
        verdict = None if self._closed else self._link.verdict()
        if verdict is not None:
            raise verdict
        return b""

    def send_nowait(self, *pieces: memoryview) -> int:
        """Send what fits without waiting."""
        return self._socket.send_nowait(*pieces)

    async def wait_sendable(self) -> None:
        """Wait until there is room."""
        await self._socket.wait_sendable()

    def close(self) -> None:
        """Close it."""
        self._closed = True
        self._socket.close()
