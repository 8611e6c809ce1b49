"""All sandboxes of one server: made, found, expired and ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import sysconfig
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandboxio import NetworkPolicy, Resources, SandboxError
from sandboxio.protocols import Backend

from ._program import Inside
from ._sandbox import Running, ServedSandbox, in_seconds, new_id

__all__ = ["ApiError", "Registry"]

MAX_LIFETIME = 24 * 3600
"""Seconds; the most that the service's larger plan gives."""

LOCAL_LIFETIME = MAX_LIFETIME + 3600.0
"""Seconds that a local sandbox may live; E2B's own lifetime, which can change, ends it before."""

ALL_TRAFFIC = "0.0.0.0/0"


class ApiError(Exception):
    """An answer of the control plane that is no success."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}


class Registry:
    """Makes sandboxes on request, and ends each when its lifetime is over."""

    def __init__(self, resources: Resources, limit: int) -> None:
        self._resources = resources
        self._limit = limit
        self._sandboxes: dict[str, ServedSandbox] = {}
        self._expiries: dict[str, asyncio.Task[None]] = {}
        self._by_key: dict[str, asyncio.Task[ServedSandbox]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._making = 0
        self._folder = ""
        self._backend: Backend | None = None
        self.inside = Inside(f"{sys.version_info[0]}.{sys.version_info[1]}")

    def open(self) -> None:
        """Prepare what all sandboxes are made from."""
        from sandboxio_testing.e2b._backend import local_backend

        self._folder = tempfile.mkdtemp(prefix="sandboxio-e2b-")
        home = Path(self._folder, "home")
        home.mkdir()
        (home / "user").symlink_to("/work")
        for path in (Path(self._folder), home):
            path.chmod(0o755)
        self._backend = local_backend(
            {
                "/home": str(home),
                Inside.python: os.path.realpath(sys.base_prefix),
                Inside.site: sysconfig.get_path("purelib"),
            }
        )

    async def end_all(self) -> None:
        """End every sandbox."""
        await asyncio.gather(*(self.kill(sandbox_id) for sandbox_id in list(self._sandboxes)))

    async def close(self) -> None:
        """End everything."""
        await self.end_all()
        for task in list(self._by_key.values()):
            task.cancel()
        if self._ending:
            await asyncio.wait(self._ending)
        shutil.rmtree(self._folder, ignore_errors=True)

    # ----- finding

    @property
    def busy(self) -> bool:
        """Whether a sandbox is being made or ended just now."""
        return self._making > 0 or bool(self._ending)

    def all(self) -> list[ServedSandbox]:
        """Return all that run, the newest first."""
        alive = [item for item in self._sandboxes.values() if not item.expired]
        return sorted(alive, key=lambda item: (item.started, item.id), reverse=True)

    def find(self, sandbox_id: str) -> ServedSandbox | None:
        """Return one that runs."""
        sandbox = self._sandboxes.get(sandbox_id)
        return None if sandbox is None or sandbox.expired else sandbox

    def get(self, sandbox_id: str) -> ServedSandbox:
        """Return one that runs.

        Raises:
            ApiError: As the control plane says it.
        """
        if not (sandbox_id.isascii() and sandbox_id.isalnum() and sandbox_id.islower()):
            raise ApiError(400, "Invalid sandbox ID")
        sandbox = self.find(sandbox_id)
        if sandbox is None:
            message = f"Sandbox \"{sandbox_id}\" doesn't exist or you don't have access to it"
            raise ApiError(404, message)
        return sandbox

    # ----- making

    async def create(self, body: dict[str, Any], key: str | None, default: int) -> ServedSandbox:
        """Make a sandbox; the same key gets the same one."""
        if key is None:
            return await self._make(body, default)
        task = self._by_key.get(key)
        if task is None or (task.done() and self._useless(task)):
            task = self._by_key[key] = asyncio.create_task(self._make(body, default))
        return await asyncio.shield(task)

    def _useless(self, task: asyncio.Task[ServedSandbox]) -> bool:
        return bool(task.cancelled() or task.exception()) or self.find(task.result().id) is None

    async def _make(self, body: dict[str, Any], default: int) -> ServedSandbox:
        timeout = body.get("timeout", default)
        if not isinstance(timeout, int) or timeout <= 0:
            raise ApiError(400, "Timeout must be greater than 0")
        if timeout > MAX_LIFETIME:
            raise ApiError(400, f"Timeout cannot be greater than {MAX_LIFETIME // 3600} hours")
        if len(self._sandboxes) >= self._limit:
            message = (
                f"you have reached the maximum number of concurrent E2B sandboxes ({self._limit})"
            )
            raise ApiError(429, message)
        policy = self._policy(body)
        refuse_unserved(body)
        sandbox = ServedSandbox(
            id=new_id(),
            template=body.get("templateID", "base"),
            metadata=body.get("metadata") or {},
            envs=body.get("envVars") or {},
            network=body.get("network"),
            internet=policy.egress == "allow",
            started=datetime.now(UTC),
            ends=in_seconds(timeout),
        )
        assert self._backend is not None
        self._making += 1
        try:
            sandbox.local = await self._backend.create(
                resources=self._resources,
                network=policy,
                timeout=LOCAL_LIFETIME,
                metadata={"e2b": sandbox.id},
            )
            sandbox.running = Running(sandbox.local, self.inside, LOCAL_LIFETIME)
            await sandbox.running.start()
        except SandboxError as error:
            if sandbox.local is not None:
                await sandbox.local.kill()
            raise ApiError(500, f"cannot make a local sandbox: {error.message}") from error
        finally:
            self._making -= 1
        self._sandboxes[sandbox.id] = sandbox
        self._schedule(sandbox)
        return sandbox

    def _policy(self, body: dict[str, Any]) -> NetworkPolicy:
        network: dict[str, Any] = body.get("network") or {}
        allow: list[str] = network.get("allowOut") or []
        deny: list[str] = network.get("denyOut") or []
        if any(not _is_address(item) for item in allow) and ALL_TRAFFIC not in deny:
            message = (
                f"When specifying allowed domains in allow out, you must include '{ALL_TRAFFIC}'"
            )
            raise ApiError(400, message + " in deny out to block all other traffic.")
        if any(not _is_address(item) for item in deny):
            raise ApiError(400, "invalid denied CIDR")
        if allow or (deny and deny != [ALL_TRAFFIC]):
            raise ApiError(
                400, "This local server can allow all traffic or none, and no list of hosts."
            )
        others = sorted(set(network) - {"allowOut", "denyOut", "allowPublicTraffic"})
        if others:
            raise ApiError(400, f"This local server cannot enforce network.{others[0]}.")
        denied = body.get("allow_internet_access") is False or ALL_TRAFFIC in deny
        return NetworkPolicy("deny" if denied else "allow")

    # ----- ending

    def set_timeout(self, sandbox: ServedSandbox, seconds: int) -> None:
        """Let its lifetime be over that many seconds from now."""
        sandbox.ends = in_seconds(max(0, min(seconds, MAX_LIFETIME)))
        self._schedule(sandbox)

    def extend(self, sandbox: ServedSandbox, seconds: int) -> None:
        """Let it live at least that many seconds more."""
        if in_seconds(seconds) > sandbox.ends:
            self.set_timeout(sandbox, seconds)

    def _schedule(self, sandbox: ServedSandbox) -> None:
        old = self._expiries.pop(sandbox.id, None)
        if old is not None:
            old.cancel()
        self._expiries[sandbox.id] = asyncio.create_task(self._expire(sandbox))

    async def _expire(self, sandbox: ServedSandbox) -> None:
        left = (sandbox.ends - datetime.now(UTC)).total_seconds()
        await asyncio.sleep(max(0.0, left))
        del self._expiries[sandbox.id]
        await self.kill(sandbox.id)

    async def kill(self, sandbox_id: str) -> bool:
        """End a sandbox and wait until it is gone; ``False`` if there was none."""
        sandbox = self._sandboxes.pop(sandbox_id, None)
        if sandbox is None:
            return False
        expiry = self._expiries.pop(sandbox_id, None)
        if expiry is not None:
            expiry.cancel()
        # Whoever asked may leave; the end of a sandbox is not theirs to cancel.
        task = asyncio.create_task(self._end(sandbox))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        await asyncio.shield(task)
        return True

    async def _end(self, sandbox: ServedSandbox) -> None:
        assert sandbox.local is not None
        assert sandbox.running is not None
        sandbox.running.gone.set()
        try:
            await sandbox.local.kill()
        finally:
            await sandbox.running.close()


def refuse_unserved(body: dict[str, Any]) -> None:
    """Refuse what only the service can do, rather than do without it."""
    for name in ("mcp", "iam", "volumeMounts", "autoPause"):
        if body.get(name):
            raise ApiError(400, f"This local server has no {name}.")


def _is_address(item: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_network(item, strict=False)
    except ValueError:
        return False
    return True
