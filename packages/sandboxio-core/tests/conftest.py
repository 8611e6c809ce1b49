"""A backend of this host, and a guest whose part a test plays.

`HostDriver` runs the guest as an ordinary process in a temporary directory. It isolates nothing, so
it is no backend for anyone; with it the engine and the guest are tested for real on any machine.
`Peer` is the other end of a channel, for what no honest guest would send.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import anyio
import hypothesis
import pytest

from sandboxio.errors import ConnectError
from sandboxio.guest import program as wire
from sandboxio.models import (
    AppliedPolicy,
    Capability,
    Health,
    IsolationTier,
    ManagedSandbox,
    NetworkPolicy,
    Resources,
)
from sandboxio.protocols import AsyncSandbox
from sandboxio.spi import (
    GUEST_PROGRAM,
    DriverBackend,
    GuestChannel,
    GuestInit,
    GuestSandbox,
    ProvisionRequest,
    SocketTransport,
)

# No database of failing examples: the tree may belong to another user than the one who tests. No
# deadline for an example: the machine may be busy.
hypothesis.settings.register_profile("sandboxio", database=None, deadline=None)
hypothesis.settings.load_profile("sandboxio")

END_BOUND = 20.0
"""Seconds for a guest to leave after its connection has ended; it kills its commands first."""


class GuestProgram:
    """A running guest, and what starts and ends it."""

    def __init__(self, workdir: Path, python: str, *options: str) -> None:
        self.workdir = workdir
        self.socket, theirs = socket.socketpair()
        self.address = f"{workdir}.socket"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.address)
        listener.listen()
        self.process = subprocess.Popen(
            [
                *(python, "-I", "-S", "-B", str(GUEST_PROGRAM)),
                *(f"in={theirs.fileno()}", f"out={theirs.fileno()}"),
                *(f"listen={listener.fileno()}", *options),
            ],
            pass_fds=[theirs.fileno(), listener.fileno()],
            env={"PATH": os.environ["PATH"], "HOME": str(workdir)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        listener.close()

    def connect(self) -> SocketTransport:
        """Open a further connection."""
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(self.address)
        return SocketTransport(sock)

    def wait(self) -> int:
        """Return its exit code; it ends by itself once its connection has."""
        return self.process.wait(END_BOUND)

    def close(self) -> None:
        """End it, however it is."""
        self.socket.close()
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            # Only then: its group holds the supervisors, which end what is below them by themselves.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.wait()
        Path(self.address).unlink(missing_ok=True)


class HostSandbox(GuestSandbox):
    """A "sandbox" on this host."""

    def __init__(
        self, channel: GuestChannel, program: GuestProgram, driver: HostDriver, name: str
    ) -> None:
        super().__init__(channel)
        self.program = program
        self.driver = driver
        self.id = name
        self.native: object = program
        self.capabilities = driver.capabilities
        self.policy = driver.policy

    async def terminate(self) -> None:
        """End the guest and all that it started."""
        self.channel.close()
        await anyio.to_thread.run_sync(self.program.close)
        self.driver.live.pop(self.id, None)

    async def detach(self) -> None:
        """Let go of it."""
        self.channel.close()


class HostDriver:
    """A `BackendDriver` of this host; `requests` are what it was asked for, `live` what it made."""

    name = "host"
    isolation = IsolationTier.CONTAINER
    capabilities = (
        Capability.RUN_COMMAND
        | Capability.RUN_CODE
        | Capability.STREAMING
        | Capability.FILESYSTEM
        | Capability.UPLOAD_DOWNLOAD
        | Capability.STDIN
        | Capability.NETWORK_POLICY
    )
    default_resources = Resources(cpu=1, memory_mb=64, processes=64)
    resources_hint = "The host has no disk quota."
    policy = AppliedPolicy(
        isolation=IsolationTier.CONTAINER,
        network=NetworkPolicy(),
        network_mechanism="nothing: this is a test",
        network_verified=False,
        lifetime_s=300,
    )

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.python = python
        self.lease = True
        self.requests: list[ProvisionRequest] = []
        self.live: dict[str, GuestProgram] = {}

    def start(self, name: str, *options: str) -> GuestProgram:
        """Start a guest in a directory of its own."""
        workdir = self.folder / name
        workdir.mkdir()
        program = self.live[name] = GuestProgram(workdir, self.python, *options)
        return program

    def sandbox(self, channel: GuestChannel, name: str) -> HostSandbox:
        """Return the sandbox of a guest that has been greeted."""
        return HostSandbox(channel, self.live[name], self, name)

    async def provision(self, request: ProvisionRequest) -> HostSandbox:
        """Start a guest and greet it."""
        self.requests.append(request)
        program = self.start(request.name)
        init = GuestInit(
            env=request.env,
            secret_names=request.secret_names,
            workdir=str(program.workdir),
            lifetime=request.timeout,
            lease=self.lease,
        )
        channel = await GuestChannel.open(SocketTransport(program.socket), init)
        return self.sandbox(channel, request.name)

    async def attach(self, sandbox_id: str) -> HostSandbox:
        """Connect to a guest once more."""
        if sandbox_id not in self.live:
            raise ConnectError(f"There is no {sandbox_id!r}.")
        channel = await GuestChannel.open(self.live[sandbox_id].connect(), None)
        return self.sandbox(channel, sandbox_id)

    async def list_managed(self, labels: Mapping[str, str]) -> list[ManagedSandbox]:
        """List what lives."""
        return [ManagedSandbox(name, self.name, "running") for name in self.live]

    async def destroy(self, sandbox_id: str) -> bool:
        """End a guest by its name."""
        program = self.live.pop(sandbox_id, None)
        if program is None:
            return False
        await anyio.to_thread.run_sync(program.close)
        return True

    async def health(self) -> Health:
        """Say that it is well."""
        return Health(ok=True, detail="this host")


@contextlib.contextmanager
def host_drivers(python: str = sys.executable) -> Iterator[HostDriver]:
    """A driver of this host whose guests are gone afterwards."""
    # A short name: it holds sockets, whose addresses have few bytes.
    with tempfile.TemporaryDirectory(prefix="sbx-") as folder:
        driver = HostDriver(Path(folder), python)
        yield driver
        for program in list(driver.live.values()):
            program.close()


@pytest.fixture(scope="session")
def with_host_driver() -> Callable[..., contextlib.AbstractContextManager[HostDriver]]:
    """What makes a driver, for fixtures of a wider scope."""
    return host_drivers


@pytest.fixture
def host_driver() -> Iterator[HostDriver]:
    """A driver of this host whose guests are gone afterwards."""
    with host_drivers() as driver:
        yield driver


@pytest.fixture
def host_backend(host_driver: HostDriver) -> DriverBackend:
    """The engine over `host_driver`."""
    return DriverBackend(host_driver)


@pytest.fixture
async def sandbox(host_backend: DriverBackend) -> AsyncIterator[AsyncSandbox]:
    """A sandbox of `host_backend`, with this Python as its guest."""
    async with await host_backend.create(timeout=100) as made:
        yield made


@pytest.fixture
def gone() -> Callable[[int], Awaitable[None]]:
    """Returns a function that waits until a process has ended, and fails if it does not."""

    async def wait(pid: int) -> None:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            with anyio.fail_after(END_BOUND):
                await anyio.wait_readable(descriptor)
        finally:
            os.close(descriptor)

    return wait


class Peer:
    """The other end of a channel, played by the test: it sends whatever it is told to."""

    def __init__(self) -> None:
        ours, self.socket = socket.socketpair()
        self.socket.settimeout(END_BOUND)
        self.transport = SocketTransport(ours)
        self._received = b""

    @staticmethod
    def frame(kind: int, ident: int, payload: object = b"") -> bytes:
        """One frame; a payload that is not bytes is encoded."""
        body = payload if isinstance(payload, bytes) else wire.encode(payload)
        return wire.HEADER.pack(len(body), kind, ident) + body

    def send(self, kind: int, ident: int, payload: object = b"") -> None:
        """Send a frame."""
        self.socket.sendall(self.frame(kind, ident, payload))

    def greet(self, **fields: object) -> None:
        """Send the greeting of an honest guest, apart from `fields`."""
        hello = {"v": wire.VERSION, "pid": 1, "primary": 1, "workdir": "/work"}
        self.send(wire.HELLO, 0, {**hello, "remaining": 10**5, "secrets": [], **fields})

    def receive(self) -> tuple[int, int, bytes]:
        """Take the next frame of the host."""
        size = wire.HEADER.size
        header = self._take(size)
        length, kind, ident = wire.HEADER.unpack(header)
        return kind, ident, self._take(length)

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError
            self._received += data
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    def close(self) -> None:
        """End the connection from the guest's side."""
        self.socket.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A guest that the test plays."""
    played = Peer()
    yield played
    played.close()
    played.transport.close()
