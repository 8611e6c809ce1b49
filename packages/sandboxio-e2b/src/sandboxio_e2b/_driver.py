"""How sandboxes of this backend come and go."""

from __future__ import annotations

import asyncio
import math
import os
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sandboxio.errors import (
    AuthError,
    ConnectError,
    CreationError,
    SandboxError,
    SandboxUnreachable,
)
from sandboxio.models import (
    Capability,
    Health,
    IsolationTier,
    ManagedSandbox,
    Resources,
)
from sandboxio_e2b import _labels
from sandboxio_e2b._doctor import diagnose
from sandboxio_e2b._errors import never_sent
from sandboxio_e2b._guest import Guest
from sandboxio_e2b._policy import check_network, policy_of
from sandboxio_e2b._portal import Portal
from sandboxio_e2b._sandbox import CAPABILITIES, E2BSandbox

if TYPE_CHECKING:
    from sandboxio.spi import Check, ProvisionRequest
    from sandboxio_e2b._client import Client, Native
    from sandboxio_e2b._info import Info

__all__ = ["E2BDriver"]

UNDO_PATIENCE = 2.0
"""Seconds that the undoing of a create waits for the create itself; E2B takes a fraction of one."""

LOOK_PATIENCE = 2.0
"""Seconds that it then looks for the sandbox by its name."""

UNDO_BOUND = 30.0
"""Seconds to end a sandbox whose create nobody waits for any more."""

CREATE_SLACK = 60.0
"""Seconds that a create which nobody waits for may still take, beyond its lifetime."""


class E2BDriver:
    """Makes sandboxes on E2B, and finds those of any process with the same key."""

    name = "e2b"
    default_resources = Resources()
    resources_hint = (
        "CPU, memory and disk of an E2B sandbox are those of its template: build a template with "
        "what you need, and name it: e2b://my-template"
    )

    def __init__(self, domain: str | None) -> None:
        self._domain = domain
        self._portal = Portal()
        self._made: Client | None = None
        self._creates: dict[str, asyncio.Task[Native]] = {}
        self._undoing: set[asyncio.Task[bool]] = set()

    @property
    def isolation(self) -> IsolationTier:
        """The tier of E2B's sandboxes; that of a local double of E2B is a lower one."""
        return IsolationTier.CONTAINER if _is_double() else IsolationTier.MICROVM

    @property
    def capabilities(self) -> Capability:
        """What its sandboxes can do."""
        return CAPABILITIES

    @property
    def _client(self) -> Client:
        assert self._made is not None, "nothing was asked of E2B yet"
        return self._made

    async def _loaded(self) -> Client:
        """Return what calls E2B; only whoever uses it pays for the import of the SDK."""
        if self._made is None:
            self._made = await self._portal.call(self._load)
        return self._made

    async def _load(self) -> Client:
        # It takes a second, which no event loop but the portal's own has to wait for.
        from sandboxio_e2b._client import Client

        return Client(self._domain)

    # ----- making

    async def provision(self, request: ProvisionRequest) -> E2BSandbox:
        """Create a sandbox with its network rules in force, or raise and leave nothing."""
        began = time.monotonic()
        check_network(request.network)
        labels = _labels.metadata(request.metadata, request.name)
        _require_key()
        client = await self._loaded()
        native, info = await self._portal.call(lambda: self._create(client, request, labels))
        try:
            policy = policy_of(info, request.network, request.timeout, self.isolation)
        except SandboxError:
            await self._portal.call(lambda: client.kill(native.sandbox_id))
            raise
        guest = Guest(
            client,
            native,
            _socket(request.name),
            env=request.env,
            secret_names=request.secret_names,
            ends_at=began + request.timeout,
        )
        self._portal.spawn(guest.prepare)
        secrets = tuple(request.env[name] for name in sorted(request.secret_names))
        # Not before: a caller who is cancelled while the answer is on its way here has no sandbox.
        self._creates.pop(request.name, None)
        return E2BSandbox(self._portal, client, native, guest, policy, secrets)

    async def _create(
        self, client: Client, request: ProvisionRequest, labels: dict[str, str]
    ) -> tuple[Native, Info]:
        """Create it in a task that no cancellation reaches: what E2B has begun, it finishes."""
        network = request.network
        task = asyncio.ensure_future(
            client.create(
                template=request.template,
                timeout=math.ceil(request.timeout),
                metadata=labels,
                allow=network.allow,
                internet=network.egress == "allow",
                key=str(uuid.uuid4()),
            )
        )
        self._creates[request.name] = task
        bound = asyncio.get_running_loop().call_later(request.timeout + CREATE_SLACK, task.cancel)
        task.add_done_callback(lambda _: bound.cancel())
        native = await asyncio.shield(task)
        info = await client.info(native.sandbox_id)
        if info is None:
            raise CreationError("E2B had the sandbox no more as soon as it was created.")
        return native, info

    async def attach(self, sandbox_id: str) -> E2BSandbox:
        """Attach to a sandbox that sandboxio made; changes nothing about it."""
        _require_key()
        client = await self._loaded()
        info = await self._portal.call(lambda: client.info(sandbox_id))
        if info is None or info.metadata.get(_labels.MANAGED) != "true":
            raise ConnectError(f"There is no sandbox {sandbox_id[:80]!r} that sandboxio made.")
        if not info.running:
            raise ConnectError(
                f"The sandbox {sandbox_id} is paused.", hint="Resume it with E2B's own SDK."
            )
        native = await self._portal.call(lambda: client.attach(sandbox_id))
        name = info.metadata.get(_labels.NAME, "")
        left = info.ends.timestamp() - time.time()
        guest = Guest(
            client, native, _socket(name), env=None, ends_at=time.monotonic() + max(1.0, left)
        )
        await self._portal.call(guest.connect)
        channel = guest.channel
        assert channel is not None
        # The guest's own clock, for E2B's need not agree with ours.
        guest.ends_at = time.monotonic() + channel.remaining
        lifetime = (info.ends - info.started).total_seconds()
        policy = policy_of(info, None, lifetime, self.isolation)
        return E2BSandbox(self._portal, client, native, guest, policy, channel.secrets)

    # ----- finding and ending

    async def list_managed(self, labels: Mapping[str, str]) -> list[ManagedSandbox]:
        """List what sandboxio made with this key, paused ones included."""
        _require_key()
        client = await self._loaded()
        found = await self._portal.call(lambda: client.list({_labels.MANAGED: "true"}))
        return [
            ManagedSandbox(
                info.id,
                self.name,
                "running" if info.running else "paused",
                info.started,
                _labels.callers(info.metadata),
                _labels.owner(info.metadata),
            )
            for info in found
            if labels.items() <= _labels.callers(info.metadata).items()
        ]

    async def destroy(self, sandbox_id: str) -> bool:
        """Destroy by id, or by the name of a create that may have left something."""
        if sandbox_id.startswith("sbx-"):
            return await self._portal.call(lambda: self._destroy_named(sandbox_id))
        _require_key()
        client = await self._loaded()
        info = await self._portal.call(lambda: client.info(sandbox_id))
        if info is None or info.metadata.get(_labels.MANAGED) != "true":
            return False
        return await self._portal.call(lambda: client.kill(sandbox_id))

    async def _destroy_named(self, name: str) -> bool:
        create = self._creates.pop(name, None)
        if create is None:
            return False  # nothing was sent
        # A task of its own, that goes on when a grace runs out here.
        undo = asyncio.ensure_future(self._undo(name, create))
        self._undoing.add(undo)
        undo.add_done_callback(self._undone)
        done, _ = await asyncio.wait({undo}, timeout=UNDO_PATIENCE)
        if done:
            return undo.result()
        try:
            async with asyncio.timeout(LOOK_PATIENCE):
                await self._end_named(name)
        except TimeoutError:
            pass  # it answers nothing at all, which is told below
        if undo.done():
            return undo.result()
        raise SandboxUnreachable(
            "E2B has not answered the create. Should it make a sandbox, that is ended as soon "
            "as it answers."
        )

    def _undone(self, undo: asyncio.Task[bool]) -> None:
        self._undoing.discard(undo)
        if not undo.cancelled():
            undo.exception()  # whoever waited for it was told, or nobody does

    async def _undo(self, name: str, create: asyncio.Task[Native]) -> bool:
        """Wait for a create and end what came of it; if its answer was lost, look for it."""
        try:
            native = await create
        except SandboxError as error:
            if error.retryable is False or never_sent(error):
                return False
            return await self._end_named(name)
        except asyncio.CancelledError:
            return await self._end_named(name)
        async with asyncio.timeout(UNDO_BOUND):
            return await self._client.kill(native.sandbox_id)

    async def _end_named(self, name: str) -> bool:
        async with asyncio.timeout(UNDO_BOUND):
            found = await self._client.list({_labels.NAME: name})
            return any([await self._client.kill(info.id) for info in found])

    async def load(self) -> None:
        """Load the SDK, if there is a key to use it with."""
        if os.environ.get("E2B_API_KEY"):
            await self._loaded()

    async def health(self) -> Health:
        """Say whether E2B would take this key now."""
        if not os.environ.get("E2B_API_KEY"):
            return Health(ok=False, detail="E2B_API_KEY is not set", hint=KEY_HINT)
        await self._list_nobody()
        return Health(ok=True, detail="E2B answers, and E2B_API_KEY is set")

    def diagnose(self) -> AsyncIterator[Check]:
        """Say which deployment of E2B it is, and whether it takes the key."""
        return diagnose(self._domain, _is_double(), self._list_nobody)

    async def _list_nobody(self) -> None:
        """Make a call that costs nothing and needs a key."""
        client = await self._loaded()
        await self._portal.call(lambda: client.list({_labels.NAME: "nobody"}))


KEY_HINT = "export E2B_API_KEY=e2b_...   (from the E2B dashboard)"


def _require_key() -> None:
    if not os.environ.get("E2B_API_KEY"):
        raise AuthError("E2B_API_KEY is not set.", hint=KEY_HINT)


def _socket(name: str) -> str:
    """Return the path of a guest's socket inside its sandbox."""
    if not name.startswith("sbx-") or not name[4:].isalnum():
        raise ConnectError("The sandbox was made by another version of sandboxio.")
    return f"/tmp/.sandboxio/{name}"  # noqa: S108 - inside, where everything is one user's


def _is_double() -> bool:
    """Say whether the address of sandboxes is this very machine, where no E2B runs microVMs."""
    if os.environ.get("E2B_DEBUG", "").lower() == "true":
        return True
    host = urlsplit(os.environ.get("E2B_SANDBOX_URL", "")).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
