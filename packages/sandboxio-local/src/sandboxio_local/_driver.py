"""How sandboxes of this backend come and go."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from sandboxio.errors import ConnectError, SandboxError
from sandboxio.models import IsolationTier
from sandboxio.spi import GuestChannel, SocketTransport
from sandboxio_local import _bwrap, _cgroup, _doctor, _end, _health, _plan, _record
from sandboxio_local._caps import defaults
from sandboxio_local._garbage import collect_abandoned
from sandboxio_local._launch import Wardens
from sandboxio_local._provision import provision
from sandboxio_local._sandbox import CAPABILITIES, LocalSandbox
from sandboxio_local._state import CONTROL, StateDirectory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sandboxio.models import Capability, Health, ManagedSandbox, Resources
    from sandboxio.spi import Check, ProvisionRequest

__all__ = ["LocalDriver"]

T = TypeVar("T")


class LocalDriver:
    """Makes sandboxes of Linux namespaces, and finds those of any process of this user."""

    name = "local"
    isolation = IsolationTier.CONTAINER
    resources_hint = (
        "Without a writable control group this kernel cannot enforce that cap: run as root, or "
        "under systemd-run --user --scope -p Delegate=yes."
    )

    def __init__(self, read_only: Mapping[str, str] | None = None) -> None:
        self._read_only = read_only
        self._wardens = Wardens()
        self._bubblewrap: _bwrap.Bubblewrap | None = None

    @property
    def capabilities(self) -> Capability:
        """What its sandboxes can do."""
        return CAPABILITIES

    @property
    def default_resources(self) -> Resources:
        """Caps of a sandbox whose creator names none."""
        return defaults(_cgroup.find())

    async def provision(self, request: ProvisionRequest) -> LocalSandbox:
        """Make a sandbox with all policy in force, or raise and leave nothing."""
        _plan.check_machine()
        if self._bubblewrap is None:
            self._bubblewrap = await _in_thread(_bwrap.find)
        plan = _plan.make(request, self._bubblewrap, _cgroup.find(), self._read_only)
        return await provision(plan, self._wardens)

    async def attach(self, sandbox_id: str) -> LocalSandbox:
        """Attach to a sandbox of this user.

        Raises:
            ConnectError: There is none with that id, or it does not answer.
        """
        state = StateDirectory.find(sandbox_id)
        made = state.read(_record.MADE) if state is not None else None
        live = state.read(_record.LIVE) if state is not None else None
        if state is None or made is None or live is None:
            raise ConnectError(f"There is no sandbox {sandbox_id[:80]!r} of this user.")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _plan.connect(sock, state.path / CONTROL)
            channel = await GuestChannel.open(SocketTransport(sock), None)
        except BaseException as error:
            sock.close()
            if isinstance(error, OSError | SandboxError):
                raise ConnectError(f"The sandbox {sandbox_id} does not answer.") from error
            raise
        return LocalSandbox(
            channel,
            native=_record.native_of(state.path, made, live),
            policy=_record.policy_of(live),
            end=partial(_end.end, state),
        )

    async def list_managed(self, labels: Mapping[str, str]) -> list[ManagedSandbox]:
        """List this user's sandboxes, and remove what is left of those without a warden."""
        self._wardens.forget_ended()
        await collect_abandoned()
        found: list[ManagedSandbox] = []
        for state in StateDirectory.all():
            record = state.read(_record.MADE)
            if record is not None and labels.items() <= _record.labels_of(record).items():
                found.append(_record.managed(state, record))
        return found

    async def destroy(self, sandbox_id: str) -> bool:
        """End a sandbox of this user; ``False`` if there is none with that id."""
        state = StateDirectory.find(sandbox_id)
        if state is None:
            return False
        await _end.end(state)
        return True

    async def health(self) -> Health:
        """Say whether a sandbox could be made now."""
        return await _in_thread(_health.examine)

    def diagnose(self) -> AsyncIterator[Check]:
        """Say all that there is to know of this host."""
        return _doctor.diagnose()


async def _in_thread(work: Callable[[], T]) -> T:
    # A limiter of its own, because the shared one may be in use by what waits for this.
    return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))
