"""How containers come and go."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio

from sandboxio.errors import ConnectError, CreationError, SandboxUnreachable
from sandboxio.models import Capability, Health, IsolationTier, ManagedSandbox, Resources
from sandboxio.spi import Check, ProvisionRequest, SandboxDriver

from ._config import DEFAULT_IMAGE, DockerConfig
from ._doctor import diagnose
from ._errors import CAPS_HINT, ImageMissing
from ._exec_sandbox import EXEC_CAPABILITIES
from ._images import pull
from ._labels import MANAGED, filters_for, managed_sandbox
from ._pending import Pending
from ._provision import Maker, attach
from ._runtime import check_runtime, tier_of
from ._sandbox import CAPABILITIES

if TYPE_CHECKING:
    from ._client import Engine, ImageFacts

__all__ = ["DockerDriver"]

UNDECIDED_POLL = 0.02
"""Seconds between two looks whether an abandoned create has been answered."""

PLAUSIBLE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")
"""What a container's name or id can be; anything else would become another path of the API."""

SHORT_ID = 12
"""Hex digits of an id as the Docker CLI prints it."""

GVISOR_TASKS = 4096
"""Process cap of gVisor sandboxes. What counts there are the threads of gVisor itself, a few hundred
before anything runs, and some versions keep those of what has ended."""

Json = dict[str, Any]


class DockerDriver:
    """A `BackendDriver` of one engine."""

    name = "docker"
    resources_hint = (
        "Docker cannot bound what a container stores. Use another backend for that, or an engine "
        "whose storage has quotas."
    )

    def __init__(self, config: DockerConfig) -> None:
        self._config = config
        self._made: Engine | None = None
        self._pending: dict[str, Pending] = {}
        self._pulled: set[str] = set()
        self._unasked: set[str] = set()
        self._without_python: set[str] = set()

    @property
    def _engine(self) -> Engine:
        if self._made is None:
            # The SDK takes long to import, which nobody shall pay who does not use it.
            from ._client import Engine

            self._made = Engine(self._config.host)
        return self._made

    @property
    def isolation(self) -> IsolationTier:
        """Tier of its sandboxes, by the name of the runtime; each is checked when it is made."""
        return tier_of(self._config.runtime)

    @property
    def default_resources(self) -> Resources:
        """Caps of sandboxes that ask for none."""
        gvisor = self.isolation is IsolationTier.GVISOR
        return Resources(cpu=1, memory_mb=512, processes=GVISOR_TASKS if gvisor else 512)

    @property
    def capabilities(self) -> Capability:
        """What its sandboxes can do; one whose image turns out to have no Python says less."""
        return CAPABILITIES if self._config.guest == "auto" else EXEC_CAPABILITIES

    async def provision(self, request: ProvisionRequest) -> SandboxDriver:
        """Make a container with all policy in force, or raise and leave nothing."""
        # Until the engine is asked, nothing of it can be there.
        self._unasked.add(request.name)
        info = await self._engine.info()
        if info.missing_limits:
            raise CreationError(
                "The Docker Engine cannot enforce these caps: " + ", ".join(info.missing_limits),
                hint=CAPS_HINT,
                retryable=False,
            )
        isolation = check_runtime(self._config.runtime, info.default_runtime, info.runtimes)
        image = await self._image(request)
        self._pulled.discard(request.name)
        self._unasked.discard(request.name)
        pending = self._pending[request.name] = Pending()
        request = replace(request, template=self._name_of_image(request))
        maker = Maker(self._engine, self._config, request, image, isolation, info, pending)
        try:
            if self._config.guest == "auto" and image.id not in self._without_python:
                sandbox = await maker.with_guest()
                if sandbox is not None:
                    return sandbox
                self._without_python.add(image.id)
                # The name is needed again.
                await self._engine.remove(request.name)
            return await maker.without_guest()
        finally:
            if not pending.undecided:
                self._pending.pop(request.name, None)

    async def _image(self, request: ProvisionRequest) -> ImageFacts:
        name = self._name_of_image(request)
        if self._config.pull == "always" and request.name not in self._pulled:
            raise ImageMissing(f"The image {name} is pulled each time.")
        image = await self._engine.image(name)
        if image is None:
            raise ImageMissing(f"The Docker Engine does not have the image {name}.")
        return image

    def _name_of_image(self, request: ProvisionRequest) -> str:
        return request.template or self._config.template or DEFAULT_IMAGE

    async def prepare(self, request: ProvisionRequest) -> None:
        """Pull the image."""
        config, name = self._config, self._name_of_image(request)
        if config.pull == "never":
            raise ImageMissing(f"The Docker Engine does not have the image {name}.")
        await pull(self._engine, name, config.platform, config.pull_timeout)
        self._pulled.add(request.name)

    async def attach(self, sandbox_id: str) -> SandboxDriver:
        """Attach to a container of ours that runs."""
        found = await self._ours(sandbox_id)
        if found is None:
            raise ConnectError(f"The Docker Engine has no sandbox {sandbox_id[:80]!r}.")
        if not found["State"]["Running"] or found["State"].get("Paused"):
            state = found["State"].get("Status", "stopped")
            raise ConnectError(f"The sandbox {sandbox_id[:80]!r} does not run: it is {state}.")
        return await attach(self._engine, found, await self._engine.info())

    async def list_managed(self, labels: Mapping[str, str]) -> list[ManagedSandbox]:
        """List containers of ours, in whatever state."""
        found = await self._engine.containers(filters_for(labels))
        return [managed_sandbox(container) for container in found]

    async def destroy(self, sandbox_id: str) -> bool:
        """Remove a container of ours; wait for a create that has not been answered yet."""
        self._pulled.discard(sandbox_id)
        if sandbox_id in self._unasked:
            self._unasked.discard(sandbox_id)
            return False
        pending = self._pending.get(sandbox_id)
        if pending is not None:
            # If we have to leave before it is answered, the thread that asked removes it.
            pending.give_up()
            while pending.undecided:  # noqa: ASYNC110 - the thread knows no event loop
                await anyio.sleep(UNDECIDED_POLL)
            self._pending.pop(sandbox_id, None)
        found = await self._ours(sandbox_id, teardown=True)
        if found is None:
            return False
        await self._engine.remove(found["Id"])
        return True

    async def _ours(self, ref: str, *, teardown: bool = False) -> Json | None:
        """Describe a container if it is one of ours and really the one that is meant."""
        if not PLAUSIBLE.fullmatch(ref):
            return None
        found = await self._engine.inspect(ref, teardown=teardown)
        if found is None:
            return None
        # The engine takes any beginning of an id for it.
        meant = ref in (found["Id"], found["Id"][:SHORT_ID], found["Name"].removeprefix("/"))
        labels: dict[str, str] = found["Config"].get("Labels") or {}
        managed = labels.get(MANAGED) == "true"
        return found if meant and managed else None

    async def load(self) -> None:
        """Load the SDK."""
        if self._made is None:
            # A limiter of its own, because the shared one may be in use by what waits for this.
            await anyio.to_thread.run_sync(
                import_module, f"{__package__}._client", limiter=anyio.CapacityLimiter(1)
            )

    async def health(self) -> Health:
        """Ask the engine what it is."""
        try:
            info = await self._engine.info(fresh=True)
        except SandboxUnreachable as error:
            return Health(ok=False, detail=error.message, hint=error.hint)
        facts = (
            ("engine", info.version),
            ("api", info.api_version),
            ("endpoint", str(self._engine.endpoint)),
            ("platform", info.platform),
            ("runtimes", ", ".join(info.runtimes)),
            ("cgroup", f"v{info.cgroup_version}"),
        )
        if info.missing_limits:
            missing = ", ".join(info.missing_limits)
            return Health(
                ok=False,
                detail=f"Docker Engine {info.version} cannot enforce these caps: {missing}",
                hint=CAPS_HINT,
                facts=facts,
            )
        return Health(
            ok=True,
            detail=f"Docker Engine {info.version} at {self._engine.endpoint}",
            facts=facts,
        )

    def diagnose(self) -> AsyncIterator[Check]:
        """Say where the engine is, how that was found, and what it can do."""
        return diagnose(self._config)
