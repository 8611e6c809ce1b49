"""What is possible on this provider, and nothing else: the engine does the rest."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import anyio
from anyio import to_thread

from sandboxio.errors import CapabilityNotSupported, ConfigurationError, ConnectError
from sandboxio.models import (
    AppliedCap,
    AppliedPolicy,
    Capability,
    Health,
    IsolationTier,
    ManagedSandbox,
    NetworkPolicy,
    Resources,
)
from sandboxio.spi import (
    GuestChannel,
    GuestInit,
    GuestSandbox,
    ProvisionRequest,
    SocketTransport,
    run_to_the_end,
)

from . import _client
from ._errors import translated

__all__ = ["TemplateDriver", "TemplateSandbox"]

UNDO_GRACE = 5.0
"""Seconds to end what a failed or cancelled create has started; the kernel needs milliseconds."""

CAPABILITIES = (
    Capability.RUN_COMMAND
    | Capability.RUN_CODE
    | Capability.STREAMING
    | Capability.STDIN
    | Capability.FILESYSTEM
    | Capability.UPLOAD_DOWNLOAD
    | Capability.NETWORK_POLICY
)


class TemplateSandbox(GuestSandbox):
    """One live sandbox. `GuestSandbox` brings commands and files; the rest is who it is and its end."""

    def __init__(
        self,
        channel: GuestChannel,
        native: _client.Sandbox,
        bubblewrap: subprocess.Popen[bytes] | None,
    ) -> None:
        super().__init__(channel)
        self._native = native
        self._bubblewrap = bubblewrap

    @property
    def id(self) -> str:
        """Its id."""
        return self._native.directory.name

    @property
    def native(self) -> _client.Sandbox:
        """The provider's own object."""
        return self._native

    @property
    def capabilities(self) -> Capability:
        """What it can do."""
        return CAPABILITIES

    @property
    def policy(self) -> AppliedPolicy:
        """What is in force, as it was read back when the sandbox was made."""
        facts = self._native.facts
        lifetime, memory, disk = (facts.get(name) for name in ("lifetime", "memory_mb", "disk_mb"))
        assert isinstance(lifetime, float)
        assert isinstance(memory, int)
        assert isinstance(disk, int)
        return AppliedPolicy(
            isolation=IsolationTier.UNKNOWN,
            network=NetworkPolicy(egress="deny"),
            network_mechanism="a network namespace with nothing but loopback",
            network_verified=facts.get("denied") is True,
            lifetime_s=lifetime,
            memory_mb=AppliedCap(
                memory, "RLIMIT_DATA of each process", verified=facts.get("capped") is True
            ),
            disk_mb=AppliedCap(disk, "size of its tmpfs mounts", verified=False),
            notes=("Nobody has verified how well this isolates.",),
        )

    async def terminate(self) -> None:
        """End it and wait until it is gone."""
        self.channel.close()
        await end(self._native)
        if self._bubblewrap is not None:
            await to_thread.run_sync(self._bubblewrap.wait)

    async def detach(self) -> None:
        """Let go of it and leave it running."""
        self.channel.close()


async def end(native: _client.Sandbox) -> None:
    """Kill the first process of a sandbox, which takes all others along, and wait for its end."""
    pid = native.init
    if pid is not None:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            pass  # it ended just now
        else:
            try:
                if native.init == pid:  # compared again: the descriptor cannot change its meaning
                    with suppress(ProcessLookupError):  # it ended after that, and was reaped
                        signal.pidfd_send_signal(fd, signal.SIGKILL)
                await anyio.wait_readable(fd)
            finally:
                os.close(fd)
    native.forget()


class TemplateDriver:
    """How sandboxes come and go."""

    name = "template"
    isolation = IsolationTier.UNKNOWN
    capabilities = CAPABILITIES
    default_resources = Resources(memory_mb=512, disk_mb=256)
    resources_hint = "This backend caps memory_mb and disk_mb, and nothing else."

    async def provision(self, request: ProvisionRequest) -> TemplateSandbox:
        """Create a sandbox with all policy in force, or raise and leave nothing."""
        if request.network.egress != "deny":
            raise CapabilityNotSupported(
                "The template backend can only deny egress.",
                capability=Capability.NETWORK_POLICY,
                hint="Use egress='deny', or another backend.",
            )
        if request.template is not None:
            raise ConfigurationError(
                "The template backend has no templates.", hint="Use template://"
            )
        native = _client.Sandbox(_client.base() / request.name)
        ours, guests = socket.socketpair()
        bubblewrap: subprocess.Popen[bytes] | None = None
        try:
            with guests, translated("Starting bubblewrap"):
                # In a thread, because it waits for another process. It is not abandoned when this
                # is cancelled, so what it has started is always known here.
                bubblewrap = await to_thread.run_sync(self._start, native, request, guests)
            init = GuestInit(
                env=request.env,
                secret_names=request.secret_names,
                workdir=_client.WORKDIR,
                lifetime=request.timeout,
            )
            channel = await GuestChannel.open(SocketTransport(ours), init)
            return TemplateSandbox(channel, native, bubblewrap)
        except BaseException:
            ours.close()
            started = bubblewrap

            async def undo() -> None:
                await end(native)
                if started is not None:
                    await to_thread.run_sync(started.wait)

            await run_to_the_end(undo, grace=UNDO_GRACE)
            raise

    def _start(
        self, native: _client.Sandbox, request: ProvisionRequest, guests: socket.socket
    ) -> subprocess.Popen[bytes]:
        """Start bubblewrap and write down what it made."""
        memory, disk = request.resources.memory_mb, request.resources.disk_mb
        assert memory is not None, "it has a default"
        assert disk is not None, "it has a default"
        native.directory.mkdir(mode=0o700, parents=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(native.directory / "control"))
            listener.listen()
            fds = [guests.fileno(), listener.fileno()]
            guest = [f"in={fds[0]}", f"out={fds[0]}", f"listen={fds[1]}"]
            bubblewrap, init = _client.launch(self.flags(disk), guest, fds)
        facts = {
            "init": init,
            "started": _client.start_time(init),
            "labels": dict(request.metadata),
            "created_at": datetime.now(UTC).isoformat(),
            "lifetime": request.timeout,
            "memory_mb": memory,
            "disk_mb": disk,
            # Read back from the kernel, and not concluded from what was asked for.
            "capped": self.cap(init, memory),
            "denied": Path(f"/proc/{init}/ns/net").readlink()
            != Path("/proc/self/ns/net").readlink(),
        }
        temporary = native.directory / "new"
        temporary.write_text(json.dumps(facts))
        temporary.rename(native.directory / "facts.json")
        return bubblewrap

    def flags(self, disk_mb: int) -> list[str]:
        """Return what isolates a sandbox."""
        return _client.flags(disk_mb)

    def cap(self, init: int, memory_mb: int) -> bool:
        """Cap the memory of each process, before the guest is told of any; whether it is in force."""
        limit = (memory_mb << 20, memory_mb << 20)
        resource.prlimit(init, resource.RLIMIT_DATA, limit)
        return resource.prlimit(init, resource.RLIMIT_DATA) == limit

    async def attach(self, sandbox_id: str) -> TemplateSandbox:
        """Attach to a sandbox of this user."""
        native = _client.state_of(sandbox_id)
        if native is None or native.init is None:
            raise ConnectError(f"There is no sandbox {sandbox_id[:80]!r} of this user.")
        sock = socket.socket(socket.AF_UNIX)
        try:
            with translated("Connecting"):
                sock.connect(str(native.directory / "control"))
            channel = await GuestChannel.open(SocketTransport(sock), None)
        except BaseException:
            sock.close()
            raise
        return TemplateSandbox(channel, native, None)

    async def list_managed(self, labels: Mapping[str, str]) -> list[ManagedSandbox]:
        """List what this user has."""
        found: list[ManagedSandbox] = []
        for native in _client.state_of_all():
            stored, created_at = native.facts.get("labels"), native.facts.get("created_at")
            if not isinstance(stored, dict) or not isinstance(created_at, str):
                continue  # it is being made just now
            if labels.items() <= stored.items():
                made = datetime.fromisoformat(created_at)
                name = native.directory.name
                found.append(ManagedSandbox(name, self.name, "running", made, stored))
        return found

    async def destroy(self, sandbox_id: str) -> bool:
        """Destroy by id; ``False`` if there is none of ours."""
        native = _client.state_of(sandbox_id)
        if native is None:
            return False
        existed = native.init is not None
        await end(native)
        return existed

    async def health(self) -> Health:
        """Say whether a sandbox could be made now."""
        problem = await to_thread.run_sync(_client.problem)
        if problem is None:
            return Health(ok=True, detail="bubblewrap works")
        return Health(ok=False, detail=problem, hint="Allow unprivileged user namespaces.")
