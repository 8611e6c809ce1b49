"""How fake sandboxes come and go."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping

from anyio.lowlevel import checkpoint

from sandboxio.errors import ConfigurationError, ConnectError
from sandboxio.models import Capability, Health, IsolationTier, ManagedSandbox, Resources
from sandboxio.spi import Check, ProvisionRequest

from .calls import Call
from .clock import VirtualClock
from .doctor import check_of
from .sandbox import DEFAULTS, FakeSandbox
from .world import World

__all__ = ["FakeDriver"]


CREATE_TIME = 0.001
"""Seconds that a create takes. It is waited for only by who does not have so much time: to all others
it makes no difference, and they need no clock that runs."""


class FakeDriver:
    """A `BackendDriver` that supplies its own clock."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def clock(self) -> VirtualClock:
        """The clock of all its sandboxes."""
        return self._world.clock

    @property
    def name(self) -> str:
        """What a DSN calls it."""
        return "fake"

    @property
    def isolation(self) -> IsolationTier:
        """What the test says."""
        return self._world.isolation

    @property
    def capabilities(self) -> Capability:
        """What the test says."""
        return self._world.capabilities

    @property
    def default_resources(self) -> Resources:
        """The caps, or none where they belong to the template."""
        return DEFAULTS if self._world.resource_caps else Resources()

    @property
    def resources_hint(self) -> str:
        """Where the caps are, if not here."""
        return "This fake takes its caps from its template: FakeBackend(resource_caps=False)."

    def provision_now(self, request: ProvisionRequest) -> FakeSandbox:
        """Create a sandbox at once, for who cannot wait.

        Raises:
            ConfigurationError: It is simulated that it takes time.
        """
        with self._world.clock.lock:
            if self._world.faults.create_takes:
                raise ConfigurationError(
                    "Creating takes time in this simulation.", hint="Use: await fake.create()"
                )
            sandbox = self._begin(request)
            return self._finish(sandbox)

    async def provision(self, request: ProvisionRequest) -> FakeSandbox:
        """Create a sandbox."""
        with self.clock.call():
            await checkpoint()
            with self.clock.lock:
                sandbox = self._begin(request)
            takes = self._world.faults.create_takes
            if takes or request.timeout < CREATE_TIME:
                await self.clock.sleep(takes or CREATE_TIME)
            with self.clock.lock:
                return self._finish(sandbox)

    def _begin(self, request: ProvisionRequest) -> FakeSandbox:
        world = self._world
        sandbox = FakeSandbox(world, request)
        world.calls.append(
            Call(
                op="create",
                at=world.clock.current_time(),
                sandbox_id=sandbox.id,
                env=dict(request.env),
                secret_names=request.secret_names,
                timeout=request.timeout,
                template=request.template,
                resources=request.resources,
                network=request.network,
                metadata=dict(request.metadata),
            )
        )
        world.faults.check_provider()
        # From here on it exists, so that a create that is cancelled has something to undo.
        world.sandboxes[sandbox.id] = sandbox
        return sandbox

    def _finish(self, sandbox: FakeSandbox) -> FakeSandbox:
        if self._world.faults.create_fails is not None:
            sandbox.end("its creation failed")
            raise self._world.faults.create_fails
        sandbox.usable()
        return sandbox

    async def attach(self, sandbox_id: str) -> FakeSandbox:
        """Attach to a sandbox that exists."""
        with self.clock.call():
            await checkpoint()
            self._note("connect", sandbox_id)
            self._world.faults.check_provider()
            sandbox = self._world.sandboxes.get(sandbox_id)
            if sandbox is None:
                raise ConnectError(f"There is no fake sandbox {sandbox_id!r}.")
            return sandbox

    async def list_managed(self, labels: Mapping[str, str]) -> list[ManagedSandbox]:
        """List what exists."""
        with self.clock.call():
            await checkpoint()
            self._note("list_managed")
            self._world.faults.check_provider()
            return [
                ManagedSandbox(
                    sandbox_id=sandbox.id,
                    backend=self.name,
                    state="running",
                    created_at=sandbox.created_at,
                    labels=sandbox.labels,
                    owner=f"pid {os.getpid()}",
                    owner_alive=True,
                )
                for sandbox in self._world.sandboxes.values()
                if labels.items() <= sandbox.labels.items()
            ]

    async def destroy(self, sandbox_id: str) -> bool:
        """Destroy by id or by name."""
        with self.clock.call():
            await checkpoint()
            self._note("kill_managed", sandbox_id)
            self._world.faults.check_provider()
            for sandbox in list(self._world.sandboxes.values()):
                if sandbox_id in (sandbox.id, sandbox.name):
                    sandbox.end("it was destroyed")
                    return True
            return False

    async def health(self) -> Health:
        """Say whether a sandbox could be created now."""
        with self.clock.call():
            await checkpoint()
            self._note("health")
            faults = self._world.faults
            if faults.auth_missing or faults.unreachable or faults.rate_limited is not False:
                what = "it is simulated that its provider refuses or does not answer"
                return Health(ok=False, detail=what, hint="fake.simulate()")
            return Health(ok=True, detail="in memory; it runs nothing")

    async def diagnose(self) -> AsyncIterator[Check]:
        """Say what is simulated."""
        yield check_of(self._world.faults)

    def _note(self, op: str, sandbox_id: str | None = None) -> None:
        self._world.calls.append(Call(op=op, at=self.clock.current_time(), sandbox_id=sandbox_id))
