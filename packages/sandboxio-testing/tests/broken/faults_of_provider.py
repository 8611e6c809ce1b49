"""Backends that break what is promised of a provider that fails, and of what a handle tells."""

from __future__ import annotations

import logging
import threading
import warnings
from dataclasses import replace
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from wrapping import Command, PassingBackend, PassingSandbox

from sandboxio.errors import ConnectError, CreateTimeout, CreationError, OrphanedSandboxWarning
from sandboxio.models import AppliedCap, AppliedPolicy, ExecResult


class SecondKillIsNothing(PassingSandbox):
    """Takes a kill that failed for one that was made."""

    def __init__(self, inner: Any, options: Any) -> None:
        super().__init__(inner, options)
        self.tried = False

    async def kill(self) -> None:
        if self.tried:
            return
        self.tried = True
        await self.inner.kill()


class OrphansUntold(PassingSandbox):
    async def kill(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OrphanedSandboxWarning)
            await self.inner.kill()


class ReapingUntold(PassingSandbox):
    async def kill(self) -> None:
        try:
            await self.inner.kill()
        except ConnectError as error:
            error.hint = "Try again later."
            raise


class LateCreateIsAFailure(PassingBackend):
    async def create(self, **options: Any) -> Any:
        try:
            return await super().create(**options)
        except CreateTimeout as error:
            raise CreationError("The provider did not answer.") from error


class WorkersShared(PassingBackend):
    """Has a few workers for all sandboxes, for their commands as for their end."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.workers = anyio.CapacityLimiter(40)

    async def create(self, **options: Any) -> Any:
        sandbox = WaitsForAWorker(await self.inner.create(**options), options)
        sandbox.workers = self.workers
        return sandbox


class WaitsForAWorker(PassingSandbox):
    workers: anyio.CapacityLimiter

    async def run(self, cmd: Command, **options: Any) -> ExecResult:
        async with self.workers:
            return await super().run(cmd, **options)

    async def kill(self) -> None:
        async with self.workers:
            await self.inner.kill()


class TellsDefaults(PassingBackend):
    async def connect(self, sandbox_id: str) -> Any:
        return ToldAnew(await self.inner.connect(sandbox_id), {})


class ToldAnew(PassingSandbox):
    @property
    def policy(self) -> AppliedPolicy:
        return replace(self.inner.policy, memory_mb=AppliedCap(1.0, "by default", verified=False))


class LogsItsRequests(PassingBackend):
    async def create(self, **options: Any) -> Any:
        logging.getLogger("provider").debug("create %s", options)
        return await super().create(**options)


class ThreadForEachSandbox(PassingBackend):
    """Starts a thread with each sandbox, which nobody ends."""

    async def create(self, **options: Any) -> Any:
        never = threading.Event()
        threading.Thread(target=never.wait, name="watcher", daemon=True).start()
        await checkpoint()
        return await super().create(**options)
