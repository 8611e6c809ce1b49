"""One live sandbox."""

from __future__ import annotations

import asyncio
import secrets as randomness
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from sandboxio.errors import OutputLimitExceeded, SandboxUnreachable
from sandboxio.models import AppliedPolicy, Capability, FileInfo
from sandboxio.spi import (
    CodeResult,
    Command,
    FileMeta,
    GuestSandbox,
    ProcessDriver,
    run_to_the_end,
)
from sandboxio_e2b._contexts import MAX_OUTPUT, Contexts
from sandboxio_e2b._guest import Guest
from sandboxio_e2b._portal import Portal
from sandboxio_e2b._process import LinkedProcess

if TYPE_CHECKING:
    from sandboxio_e2b._client import Client, Native

__all__ = ["CAPABILITIES", "E2BSandbox"]

CAPABILITIES = (
    Capability.RUN_COMMAND
    | Capability.RUN_CODE
    | Capability.STATEFUL_CODE
    | Capability.STREAMING
    | Capability.STDIN
    | Capability.FILESYSTEM
    | Capability.UPLOAD_DOWNLOAD
    | Capability.NETWORK_POLICY
    | Capability.NETWORK_ALLOWLIST
)

MARK = "SANDBOXIO_COMMAND"
"""A variable of every command, by which it is found should its connection break."""

STOP_GRACE = 5.0
"""Seconds to stop code that was cancelled, before the whole sandbox is ended for it."""


class E2BSandbox(GuestSandbox):
    """Drives one sandbox: commands and files through its guest, code through E2B's interpreter."""

    def __init__(
        self,
        portal: Portal,
        client: Client,
        native: Native,
        guest: Guest,
        policy: AppliedPolicy,
        secrets: tuple[str, ...],
    ) -> None:
        # The channel comes later, with the first connection.
        self._portal = portal
        self._client = client
        self._native = native
        self._guest = guest
        self._policy = policy
        self._secrets = secrets
        self._contexts = Contexts(client, native)
        self._id = str(native.sandbox_id)

    @property
    def id(self) -> str:
        """E2B's id of it."""
        return self._id

    @property
    def native(self) -> Native:
        """The SDK's own object; to be used on asyncio."""
        return self._native

    @property
    def capabilities(self) -> Capability:
        """What it can do."""
        return CAPABILITIES

    @property
    def policy(self) -> AppliedPolicy:
        """What is in force."""
        return self._policy

    @property
    def workdir(self) -> str:
        """Where relative paths start."""
        return self._guest.home

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secret values that it was created with."""
        return self._secrets

    @property
    def remaining(self) -> float:
        """Seconds of lifetime left."""
        return self._guest.remaining

    async def _connected(self) -> None:
        if not self._guest.usable:
            await self._portal.call(self._guest.connect)
        channel = self._guest.channel
        assert channel is not None
        self.channel = channel

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command."""
        await self._connected()
        link = self._guest.link
        assert link is not None
        mark = f"{MARK}={randomness.token_hex(8)}"
        name, _, value = mark.partition("=")
        try:
            process = await super().start(replace(command, env={**command.env, name: value}))
        except SandboxUnreachable:
            await self._stop(lambda: self._lost(mark))
            raise
        return LinkedProcess(process, self._guest, link, mark, self._portal)

    async def _lost(self, mark: str) -> bool:
        """Return when what may have been started over a connection that broke is dead."""
        await self._portal.call(lambda: self._guest.settle(mark))
        return True

    async def _stop(self, stop: Callable[[], Awaitable[bool]]) -> None:
        """Stop what a failed or cancelled call has begun, or else end the whole sandbox.

        In one step: a caller that is cancelled would not come to a second one.
        """

        async def step() -> None:
            with anyio.move_on_after(STOP_GRACE):
                try:
                    if await stop():
                        return
                except Exception:  # noqa: BLE001, S110 - whatever it is: not confirmed
                    pass
            await self.terminate()

        await run_to_the_end(step, grace=2 * STOP_GRACE)

    @asynccontextmanager
    async def read(self, path: str) -> AsyncGenerator[tuple[FileMeta, AsyncIterator[bytes]], None]:
        """Open a regular file."""
        await self._connected()
        async with super().read(path) as opened:
            yield opened

    async def write(self, path: str, chunks: AsyncIterator[bytes], meta: FileMeta) -> None:
        """Write a file atomically."""
        await self._connected()
        await super().write(path, chunks, meta)

    async def stat(self, path: str) -> FileInfo:
        """Describe one path, without following a final link."""
        await self._connected()
        return await super().stat(path)

    async def ls(self, path: str) -> list[FileInfo]:
        """List a directory."""
        await self._connected()
        return await super().ls(path)

    async def mkdir(self, path: str, *, parents: bool) -> None:
        """Make a directory."""
        await self._connected()
        await super().mkdir(path, parents=parents)

    async def remove(self, path: str) -> None:
        """Remove a path and all below it."""
        await self._connected()
        await super().remove(path)

    async def run_code(
        self,
        code: str,
        *,
        language: str,
        context_id: str | None,
        env: Mapping[str, str],
        timeout: float,
    ) -> CodeResult:
        """Run code: in the interpreter of a context, or once in a Python of its own.

        Without a context nothing may be kept, and E2B's own default interpreter keeps everything.
        """
        if context_id is None and language == "python":
            return await self._once(code, env, timeout)
        work = Stoppable()

        async def run() -> CodeResult:
            with work.under_way():
                return await self._contexts.run(code, language, context_id, env)

        async def stopped() -> bool:
            await work.over()
            return not self._contexts.stuck

        try:
            return await self._portal.call(run)
        except BaseException:
            await self._stop(lambda: self._portal.call(stopped))
            raise

    async def _once(self, code: str, env: Mapping[str, str], timeout: float) -> CodeResult:
        command = Command(
            argv=("python3", "-"),
            env=env,
            cwd=None,
            stdin=code.encode() or b"\n",
            keep_stdin_open=False,
            timeout=timeout,
            call="run_code",
        )
        process = await self.start(command)
        output = {"stdout": bytearray(), "stderr": bytearray()}
        try:
            while (chunk := await process.receive()) is not None:
                output[chunk.stream] += chunk.data
                if len(output["stdout"]) + len(output["stderr"]) > MAX_OUTPUT:
                    raise OutputLimitExceeded(
                        f"The code wrote more than {MAX_OUTPUT} bytes and was killed.",
                        limit="output of run_code",
                        value=MAX_OUTPUT,
                    )
            ended = await process.wait()
        except BaseException:
            await self._stop(process.kill)
            raise
        return CodeResult(ended.exit_code, bytes(output["stdout"]), bytes(output["stderr"]))

    async def alive(self) -> bool:
        """Say whether E2B still has it."""
        info = await self._portal.call(lambda: self._client.info(self._id))
        return info is not None and info.running

    async def terminate(self) -> None:
        """End it and return when E2B has it no more."""
        self._guest.release()

        async def end() -> None:
            # First of all: this frees a connection, which the next call may be waiting for.
            await self._guest.close(cut=False)
            await self._client.kill(self._id)

        await self._portal.call(end)

    async def detach(self) -> None:
        """Let go of it and leave it running; what was started through this handle ends."""
        self._guest.release()
        await self._portal.call(lambda: self._guest.close(cut=True))


class Stoppable:
    """Work on the portal, and whether it is over; one that was cancelled may still be stopping."""

    def __init__(self) -> None:
        self._begun = False
        self._over = asyncio.Event()

    @contextmanager
    def under_way(self) -> Generator[None, None, None]:
        """Surround the work."""
        self._begun = True
        try:
            yield
        finally:
            self._over.set()

    async def over(self) -> None:
        """Return when it is over; it may also have been cancelled before it began."""
        if self._begun:
            await self._over.wait()
