"""From a request to a running container, and back to one from its id."""

from __future__ import annotations

import os
from typing import Any

from sandboxio.errors import CreationError, ProviderError, SandboxError, SandboxGone
from sandboxio.models import IsolationTier
from sandboxio.spi import GuestChannel, GuestInit, ProvisionRequest, SandboxDriver

from ._autopsy import examine
from ._cgroup import CgroupFiles, HostCgroup
from ._client import Engine, EngineInfo, ImageFacts
from ._config import DEFAULT_IMAGE, DockerConfig
from ._guest import guest_command, relay_command
from ._images import numeric_user
from ._labels import TIMEOUT, labels_for
from ._pending import Pending
from ._policy import host_config, read_policy
from ._runtime import tier_of
from ._sandbox import Container, DockerSandbox, inner_files
from ._transport import DockerTransport, FrameReader

__all__ = ["Maker", "attach"]

WORKDIR = "/work"

Json = dict[str, Any]


class Maker:
    """Makes one sandbox."""

    def __init__(
        self,
        engine: Engine,
        config: DockerConfig,
        request: ProvisionRequest,
        image: ImageFacts,
        isolation: IsolationTier,
        info: EngineInfo,
        pending: Pending,
    ) -> None:
        self._engine = engine
        self._config = config
        self._request = request
        self._image = image
        self._isolation = isolation
        self._info = info
        self._pending = pending
        self._workdir = image.workdir if image.workdir.strip("/") else WORKDIR

    async def with_guest(self) -> SandboxDriver | None:
        """Make a container whose first process is the guest; ``None`` if it has no Python for it."""
        request = self._request
        config = self._container("python", guest_command(request.timeout), init=False)
        ref = await self._create(config)
        sock, rest = await self._engine.attach(ref)
        reader = FrameReader(sock, rest)
        transport = DockerTransport(reader, lambda: self._examine(ref))
        try:
            try:
                await self._engine.start(ref)
            except ProviderError as error:
                if "python3" in error.message and "executable file not found" in error.message:
                    transport.close()
                    return None
                raise
            init = GuestInit(
                env=request.env,
                secret_names=request.secret_names,
                workdir=self._workdir,
                lifetime=request.timeout,
                lease=lease_wanted(),
            )
            channel = await self._greeted(transport, init)
            attributes = await self._engine.inspect(ref)
            if attributes is None:
                raise CreationError("The container was removed while it was made.")
            container = await described(
                self._engine, attributes, self._info, self._isolation, request.timeout, channel
            )
        except BaseException:
            transport.close()
            raise
        return DockerSandbox(channel, container)

    async def _greeted(self, transport: DockerTransport, init: GuestInit) -> GuestChannel:
        try:
            return await GuestChannel.open(transport, init)
        except SandboxGone as error:
            said = transport.diagnostic.decode("utf-8", "replace").strip()
            raise CreationError(
                "The guest did not start in the container. "
                + (f"It said: {said[-500:]}" if said else error.message),
                hint="The image's python3 must be 3.8 or newer, and able to run.",
                retryable=False,
            ) from error

    async def without_guest(self) -> SandboxDriver:
        """Make a container for an image without Python."""
        raise CreationError("The image has no Python.")

    async def _create(self, config: Json) -> str:
        request, user = self._request, self._image.user
        ref = await self._engine.create(request.name, config, self._config.platform, self._pending)
        root = user.partition(":")[0] in ("", "0", "root")
        if not root or self._workdir != WORKDIR:
            # The engine makes the working directory, and for root alone.
            uid, gid = (0, 0) if root else await numeric_user(self._engine, ref, user)
            await self._engine.put_folder(ref, WORKDIR, uid, gid)
        return ref

    def _container(self, guest: str, command: list[str], *, init: bool) -> Json:
        request = self._request
        return {
            "Image": request.template or DEFAULT_IMAGE,
            "Hostname": "sandbox",
            "Entrypoint": command,
            "Cmd": [],
            "WorkingDir": self._workdir,
            "Healthcheck": {"Test": ["NONE"]},
            "Labels": labels_for(request.timeout, request.metadata, guest),
            "Tty": False,
            "OpenStdin": not init,
            # The end of our connection is the end of the guest's stdin, which is the lease.
            "StdinOnce": not init,
            "AttachStdin": not init,
            "AttachStdout": True,
            "AttachStderr": True,
            "StopSignal": "SIGKILL",
            "HostConfig": host_config(
                request.resources, request.network, self._config.runtime, init=init
            ),
        }

    async def _examine(self, ref: str) -> SandboxError | None:
        return await examine(self._engine, ref, memory_mb=self._request.resources.memory_mb)


def lease_wanted() -> bool:
    """Whether a sandbox ends with the process that made it: ``SBX_DOCKER_REAPER`` is not ``0``."""
    return os.environ.get("SBX_DOCKER_REAPER", "1") != "0"


async def described(
    engine: Engine,
    attributes: Json,
    info: EngineInfo,
    isolation: IsolationTier,
    lifetime: float,
    channel: GuestChannel,
) -> Container:
    """Read back what is in force on a container that has just started, or runs."""
    files: CgroupFiles = HostCgroup.of(
        int(attributes["State"]["Pid"]), attributes["Id"]
    ) or inner_files(channel)
    policy = await read_policy(
        attributes,
        files,
        cgroup_version=info.cgroup_version,
        isolation=isolation,
        lifetime=lifetime,
    )
    return Container(engine, attributes["Id"], attributes, policy, files, info.cgroup_version)


async def attach(engine: Engine, attributes: Json, info: EngineInfo) -> SandboxDriver:
    """Attach to a running container as a further host of its guest."""
    ref = attributes["Id"]
    ending = await engine.ending(ref)
    try:
        config = {
            "Cmd": relay_command(),
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": False,
        }
        _, sock, rest = await engine.exec(ref, config)
    except BaseException:
        ending.close()
        raise
    memory: float = attributes["HostConfig"]["Memory"] / (1024 * 1024)
    transport = DockerTransport(
        FrameReader(sock, rest, ending), lambda: examine(engine, ref, memory_mb=memory)
    )
    try:
        channel = await GuestChannel.open(transport, None)
        runtime = attributes["HostConfig"].get("Runtime") or info.default_runtime
        container = await described(
            engine,
            attributes,
            info,
            tier_of(info.runtimes.get(runtime, runtime)),
            float(attributes["Config"]["Labels"].get(TIMEOUT, 0)),
            channel,
        )
    except BaseException:
        transport.close()
        raise
    return DockerSandbox(channel, container)
