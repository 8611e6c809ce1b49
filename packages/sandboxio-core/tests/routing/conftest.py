"""Backends that do what a test says, under the real engine, and a clock that a test moves.

A `StageDriver` is a third party's driver: it has no provider, so it can be throttled, unreachable,
silent, or lose the reply of a create. What it "created" is in `live` until the engine destroys it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import anyio
import pytest

import sandboxio
from sandboxio.errors import ConnectError, SandboxUnreachable
from sandboxio.models import (
    AppliedPolicy,
    Capability,
    Health,
    IsolationTier,
    ManagedSandbox,
    Resources,
)
from sandboxio.routing import Router, RouterTuning
from sandboxio.spi import BackendDriver, DriverBackend, ProvisionRequest

BASIC = (
    Capability.RUN_COMMAND
    | Capability.RUN_CODE
    | Capability.STREAMING
    | Capability.FILESYSTEM
    | Capability.STDIN
    | Capability.NETWORK_POLICY
)


class StageSandbox:
    """One sandbox that exists in name only; what runs in one is tested on real backends."""

    def __init__(self, driver: StageDriver, request: ProvisionRequest) -> None:
        self.driver = driver
        self.id = request.name
        self.native = request
        self.capabilities = driver.capabilities
        self.workdir = "/work"
        self.secrets: tuple[str, ...] = ()
        self.remaining = request.timeout
        self.policy = AppliedPolicy(driver.isolation, request.network, "none", True, 300)

    async def alive(self) -> bool:
        return self.id in self.driver.live

    async def terminate(self) -> None:
        self.driver.live.pop(self.id, None)

    async def detach(self) -> None:
        return None


@dataclass
class StageDriver:
    """A driver that follows a script.

    Attributes:
        script: What becomes of each create, in order: an error, ``"hang"``, or ``"lost"`` (it is
            created and the reply is lost). Creates beyond it succeed.
        says: What `health` answers: a value, an error, or ``"hang"``.
        log: What was asked of all drivers of a test, in order.
    """

    name: str
    isolation: IsolationTier = IsolationTier.CONTAINER
    capabilities: Capability = BASIC
    script: list[object] = field(default_factory=list[object])
    says: object = field(default_factory=lambda: Health(ok=True, detail="on stage"))
    log: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    destroy_error: Exception | None = None
    requests: list[ProvisionRequest] = field(default_factory=list[ProvisionRequest])
    live: dict[str, StageSandbox] = field(default_factory=dict[str, StageSandbox])
    asked: int = 0
    default_resources = Resources(cpu=1, memory_mb=512, processes=64, disk_mb=512)
    resources_hint = ""

    async def provision(self, request: ProvisionRequest) -> StageSandbox:
        self.log.append(("create", self.name))
        self.requests.append(request)
        step = self.script.pop(0) if self.script else None
        await anyio.lowlevel.checkpoint()
        if isinstance(step, Exception):
            raise step
        made = self.live[request.name] = StageSandbox(self, request)
        if step == "hang":
            await anyio.sleep_forever()
        if step == "lost":
            raise SandboxUnreachable("the connection was reset before the reply came")
        return made

    async def attach(self, sandbox_id: str) -> StageSandbox:
        raise ConnectError(f"There is no {sandbox_id!r}.")

    async def list_managed(self, labels: Mapping[str, str]) -> list[ManagedSandbox]:
        return [ManagedSandbox(name, self.name, "running") for name in self.live]

    async def destroy(self, sandbox_id: str) -> bool:
        self.log.append(("destroy", self.name))
        if self.destroy_error is not None:
            raise self.destroy_error
        return self.live.pop(sandbox_id, None) is not None

    async def health(self) -> Health:
        self.asked += 1
        await anyio.lowlevel.checkpoint()
        if isinstance(self.says, Exception):
            raise self.says
        if self.says == "hang":
            await anyio.sleep_forever()
        assert isinstance(self.says, Health)
        return self.says


class VirtualClock:
    """Time that only a test moves; scopes still end by the event loop's."""

    def __init__(self) -> None:
        self.now = 1000.0

    def current_time(self) -> float:
        return self.now

    def move_on_after(self, delay: float, *, shield: bool = False) -> anyio.CancelScope:
        return anyio.move_on_after(delay, shield=shield)


@dataclass
class Stage:
    """The backends of one test and the router over them."""

    drivers: dict[str, StageDriver]
    adapters: dict[str, str]
    router: Router
    clock: VirtualClock
    log: list[tuple[str, str]]

    def __getitem__(self, name: str) -> StageDriver:
        return self.drivers[name]

    @property
    def created(self) -> list[str]:
        """Entries that were asked to create, in order."""
        return [name for what, name in self.log if what == "create"]


_numbers = itertools.count()


def set_stage(
    drivers: Sequence[StageDriver],
    *,
    entries: Mapping[str, Mapping[str, object]] | None = None,
    tuning: RouterTuning | None = None,
    **more: object,
) -> Stage:
    """Register each driver under a name of its own, and make a router over them.

    The first driver is the backend of the default class, unless `more` says otherwise.
    """
    run = next(_numbers)
    log: list[tuple[str, str]] = []
    backends: dict[str, dict[str, object]] = {}
    for driver in drivers:
        driver.log = log
        adapter = f"stage{run}_{driver.name}"
        # It has no files and starts nothing; these tests never get that far.
        backend = DriverBackend(cast("BackendDriver", driver))
        sandboxio.register(adapter, lambda backend=backend: backend)
        backends[driver.name] = {"adapter": adapter, **(entries or {}).get(driver.name, {})}
    data: dict[str, object] = {
        "backends": backends,
        "isolation_classes": {"standard": {"backend": drivers[0].name}},
        "default_class": "standard",
    }
    clock = VirtualClock()
    router = Router.from_dict({**data, **more}, tuning=tuning, clock=clock)
    adapters = {name: str(entry["adapter"]) for name, entry in backends.items()}
    return Stage({driver.name: driver for driver in drivers}, adapters, router, clock, log)


@pytest.fixture
def stage() -> Callable[..., Stage]:
    """`set_stage`."""
    return set_stage


@pytest.fixture
def driver() -> type[StageDriver]:
    """`StageDriver`."""
    return StageDriver


@pytest.fixture
def basic() -> Capability:
    """What every `StageDriver` can do."""
    return BASIC


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock that stands still."""
    return VirtualClock()
