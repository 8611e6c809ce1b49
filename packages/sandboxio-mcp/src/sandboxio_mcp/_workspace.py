"""One connection's sandbox: started by its first call, and gone with the connection."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio

import sandboxio
from sandboxio.errors import ConnectError, CreateTimeout, SandboxError, SandboxGone
from sandboxio.protocols import AsyncSandbox

from ._config import ServerConfig
from ._pages import Pages

__all__ = ["Workspace", "workspace"]

logger = logging.getLogger(__name__)

CALLS_AT_ONCE = 8
"""Calls of one connection that run at the same time; further ones wait for their turn."""

END_BOUND = 6.0
"""Seconds that ending a sandbox may take: the engine's own grace of 5 s, and a moment to tell."""

LABELS = {"created_by": "sandboxio-mcp"}


class Workspace:
    """The sandbox of one connection, which exists from its first call on.

    A sandbox that is gone (its lifetime ended, it was idle, it was killed) is replaced by the next
    call; nothing is run twice. `news` then tells the model that its files are gone.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.pages = Pages()
        self._sandbox: AsyncSandbox | None = None
        self._lock = anyio.Lock()
        self._turns = anyio.Semaphore(CALLS_AT_ONCE)
        self._calls = 0
        self._changed = anyio.Event()
        self._ended_because: str | None = None

    @asynccontextmanager
    async def call(self) -> AsyncGenerator[AsyncSandbox, None]:
        """Hold the sandbox for one call, and start it if there is none.

        Raises:
            SandboxError: It cannot be started, or what the call itself raised.
        """
        async with self._turns:
            self._calls += 1
            self._tell()
            try:
                sandbox = await self._started()
                try:
                    yield sandbox
                except SandboxGone:
                    await self._end(sandbox, "it no longer existed")
                    raise
            finally:
                self._calls -= 1
                self._tell()

    def news(self) -> str | None:
        """Return, once, that the sandbox is a new one, and why the one before it ended."""
        reason, self._ended_because = self._ended_because, None
        if reason is None:
            return None
        return (
            f"Note: this is a new sandbox. The one before ended because {reason}; "
            "its files and processes are gone."
        )

    async def _started(self) -> AsyncSandbox:
        async with self._lock:
            if self._sandbox is None:
                self._sandbox = await self._create()
            return self._sandbox

    async def _create(self) -> AsyncSandbox:
        config = self.config
        create = partial(
            sandboxio.create,
            config.backend,
            template=config.template,
            resources=config.resources,
            metadata=LABELS,
            require_isolation=config.require_isolation,
        )
        # What nobody said stays unsaid: a routing file or a DSN may say it, and create() refuses two.
        if config.network is not None:
            create = partial(create, network=config.network)
        if config.sandbox_lifetime is not None:
            create = partial(create, timeout=config.sandbox_lifetime)
        with anyio.move_on_after(config.start_timeout) as scope:
            sandbox = await create()
            try:
                for file in config.files:
                    await sandbox.files.upload(file.local, file.remote)
            except BaseException:
                # Without its files it is not the sandbox that was asked for, and nobody has it yet.
                await _kill(sandbox)
                raise
            return sandbox
        assert scope.cancelled_caught
        raise CreateTimeout(
            f"The sandbox was not ready within {config.start_timeout:g} s.",
            hint="Ask the operator to pull the image, or to raise --start-timeout.",
        )

    async def _end(self, sandbox: AsyncSandbox, reason: str) -> None:
        if sandbox is not self._sandbox:
            return  # another call that lost it was here first
        self._sandbox = None
        self._ended_because = reason
        await _kill(sandbox)

    async def end_when_idle(self) -> None:
        """End the sandbox whenever nobody has called for a while; never returns."""
        while True:
            self._changed = anyio.Event()
            if self._calls or self._sandbox is None:
                await self._changed.wait()
                continue
            with anyio.move_on_after(self.config.idle):
                await self._changed.wait()
                continue
            await self._end_idle()

    async def _end_idle(self) -> None:
        async with self._lock:
            sandbox = self._sandbox
            if sandbox is not None and not self._calls:
                await self._end(sandbox, f"there was no call for {self.config.idle:g} s")

    async def close(self) -> None:
        """End the sandbox; nothing starts another one afterwards."""
        sandbox, self._sandbox = self._sandbox, None
        self.pages.clear()
        if sandbox is not None:
            await _kill(sandbox)

    def _tell(self) -> None:
        self._changed.set()


@asynccontextmanager
async def workspace(config: ServerConfig) -> AsyncGenerator[Workspace, None]:
    """Hold the workspace of one connection; when this is left, its sandbox is gone."""
    held = Workspace(config)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(held.end_when_idle)
            yield held
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await held.close()


async def _kill(sandbox: AsyncSandbox) -> None:
    with anyio.move_on_after(END_BOUND, shield=True):
        try:
            await sandbox.kill()
        except ConnectError as error:
            # It has a lifetime, and a lease that ends with this process.
            logger.warning("%s", error)
        except SandboxError as error:
            logger.warning("The sandbox was ended, and its record was not kept: %s", error)
