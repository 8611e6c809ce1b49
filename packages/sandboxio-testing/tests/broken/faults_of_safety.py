"""Backends that break what policy, capabilities and isolation are promised."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from sandboxio_template import (  # pyright: ignore[reportMissingImports]
    TemplateBackend,
    _client,
    _driver,
)
from wrapping import PassingBackend, PassingSandbox

from sandboxio.errors import ConfigurationError
from sandboxio.models import Capability, ExecResult, IsolationTier, NetworkPolicy, Resources
from sandboxio.spi import DriverBackend

# ----- requests that are not refused


class CapUnset(PassingBackend):
    """Takes a value that is no cap for "the default"."""

    async def create(self, *, resources: Any = Resources(), **options: Any) -> Any:
        try:
            return await super().create(resources=resources, **options)
        except ConfigurationError:
            return await super().create(**options)


class AllowlistIgnored(PassingBackend):
    async def create(self, *, network: Any = NetworkPolicy(), **options: Any) -> Any:
        return await super().create(network=replace(network, allow=()), **options)


class LearnIsDeny(PassingBackend):
    async def create(self, *, network: Any = NetworkPolicy(), **options: Any) -> Any:
        known = network if network.egress in ("deny", "allow") else NetworkPolicy()
        return await super().create(network=known, **options)


class GpuIgnored(PassingBackend):
    async def create(self, *, resources: Any = Resources(), **options: Any) -> Any:
        gpu = isinstance(resources, Resources) and resources.gpu
        return await super().create(
            resources=replace(resources, gpu=None) if gpu else resources, **options
        )


class IsolationNotRequired(PassingBackend):
    async def create(self, **options: Any) -> Any:
        return await super().create(**{**options, "require_isolation": None})


# ----- capabilities and tiers


class SecretlyStreamingSandbox(PassingSandbox):
    @property
    def capabilities(self) -> Capability:
        return self.inner.capabilities & ~Capability.STREAMING


class SecretlyStreaming(PassingBackend):
    """Streams, and does not declare it."""

    sandbox_type = SecretlyStreamingSandbox

    @property
    def capabilities(self) -> Capability:
        return self.inner.capabilities & ~Capability.STREAMING


class DeclaresTooMuch(PassingBackend):
    @property
    def capabilities(self) -> Capability:
        return self.inner.capabilities | Capability.PTY


class OverstatedSandbox(PassingSandbox):
    @property
    def isolation(self) -> IsolationTier:
        return IsolationTier.MICROVM


class BlockingSandbox(PassingSandbox):
    """Waits in the event loop's own thread for a command that waits for another one."""

    async def run(self, cmd: Any, **options: Any) -> ExecResult:
        if isinstance(cmd, list) and any("while [ ! -e" in str(word) for word in cmd):
            with ThreadPoolExecutor(1) as pool:
                call = partial(self.inner.run, cmd, **options)
                return pool.submit(anyio.run, call).result()
        return await super().run(cmd, **options)


# ----- isolation, with real processes


class ChangedFlags(DriverBackend):
    """The template backend with other flags for bubblewrap."""

    def __init__(self, *, audit: Any = None) -> None:
        super().__init__(ChangedDriver(self), audit=audit)

    def flags(self, words: list[str]) -> list[str]:
        raise NotImplementedError


class ChangedDriver(_driver.TemplateDriver):
    def __init__(self, backend: ChangedFlags) -> None:
        self.backend = backend

    def flags(self, disk_mb: int) -> list[str]:
        return self.backend.flags(_client.flags(disk_mb))


class HostNetwork(ChangedFlags):
    def flags(self, words: list[str]) -> list[str]:
        return [*words, "--share-net"]


class Privileged(ChangedFlags):
    def flags(self, words: list[str]) -> list[str]:
        at = words.index("--cap-drop")
        return [*words[:at], "--cap-add", "ALL", *words[at + 2 :]]


class HostDirectoryMounted(ChangedFlags):
    def flags(self, words: list[str]) -> list[str]:
        return [*words[:-2], "--bind", tempfile.gettempdir(), "/mnt", *words[-2:]]


class FilesShared(ChangedFlags):
    """Mounts one and the same directory as the working directory of every sandbox."""

    def __init__(self, *, audit: Any = None) -> None:
        super().__init__(audit=audit)
        self.shared = tempfile.TemporaryDirectory()

    def flags(self, words: list[str]) -> list[str]:
        Path(self.shared.name).chmod(0o777)
        at = words.index("/work", words.index("--tmpfs"))
        return [*words[: at - 3], "--bind", self.shared.name, *words[at:]]


class MemoryCapNotApplied(TemplateBackend):
    """Says in its policy that memory is capped."""

    def __init__(self, *, audit: Any = None) -> None:
        DriverBackend.__init__(self, UncappedDriver(), audit=audit)


class UncappedDriver(_driver.TemplateDriver):
    def cap(self, init: int, memory_mb: int) -> bool:
        return True


class DenyDoesNotDeny(TemplateBackend):
    """Gives each sandbox a network of its own, and that leads everywhere."""

    def __init__(self, *, audit: Any = None) -> None:
        DriverBackend.__init__(self, ConnectedDriver(), audit=audit)

    @staticmethod
    def missing() -> str | None:
        return None if shutil.which("slirp4netns") else "slirp4netns is not installed"


class ConnectedDriver(_driver.TemplateDriver):
    async def provision(self, request: Any) -> Any:
        sandbox = await super().provision(request)
        sandbox.helper = await to_thread.run_sync(connect, sandbox.native.init)
        return sandbox


NS_GET_USERNS = 0xB701
"""Asks the kernel for the user namespace that a namespace belongs to; see ioctl_ns(2)."""


def connect(init: int) -> subprocess.Popen[bytes]:
    """Give the network namespace of a process a way out, and return when it works."""
    ready_r, ready_w = os.pipe()
    exit_r, _ = os.pipe()  # the other end stays open until this process ends, and slirp4netns then
    network = os.open(f"/proc/{init}/ns/net", os.O_RDONLY)
    # Bubblewrap nests another user namespace, which the process itself is in.
    owner = fcntl.ioctl(network, NS_GET_USERNS)
    with os.fdopen(ready_r, "rb") as ready:
        helper = subprocess.Popen(
            [
                *("slirp4netns", "--configure", f"--ready-fd={ready_w}", f"--exit-fd={exit_r}"),
                *(f"--userns-path=/proc/self/fd/{owner}", "--netns-type=path"),
                *(f"/proc/self/fd/{network}", "tap0"),
            ],
            pass_fds=[ready_w, exit_r, owner, network],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in (ready_w, exit_r, owner, network):
            os.close(fd)
        assert ready.read(1) == b"1", "slirp4netns did not start"
    return helper
