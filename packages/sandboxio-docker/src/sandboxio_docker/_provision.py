"""From a request to a running container, and back to one from its id."""

from __future__ import annotations

import json
import math
import os
import re
import socket
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sandboxio.errors import ConnectError, CreationError, ProviderError, SandboxError, SandboxGone
from sandboxio.models import IsolationTier
from sandboxio.spi import GuestChannel, GuestInit, ProvisionRequest, SandboxDriver

from ._autopsy import examine
from ._cgroup import CgroupFiles, HostCgroup, InnerCgroup
from ._config import DEFAULT_IMAGE, DockerConfig
from ._direct import DirectTransport, reach, wanted
from ._ending import Ending
from ._exec_host import ExecHost
from ._exec_sandbox import ExecSandbox
from ._guest import guest_command, guest_program, relay_command
from ._images import numeric_user
from ._labels import GUEST, TIMEOUT, labels_for
from ._pending import Pending
from ._policy import host_config, read_policy
from ._runtime import runtime_of, tier_of
from ._sandbox import Container, DockerSandbox, inner_files
from ._scripts import KEEP
from ._transport import DockerTransport, FrameReader

if TYPE_CHECKING:
    from ._client import Engine, ImageFacts
    from ._engine_info import EngineInfo

__all__ = ["Maker", "attach"]

WORKDIR = "/work"

KEEPER = 65533
"""User of the first process where that is no guest: nobody else's, and not one that images use."""

NO_PYTHON = re.compile(r"python3.*(executable file not found|no such file or directory)", re.DOTALL)
"""How runtimes say that an image has no such program."""

RECORD = ".sandboxio"
"""File in the container that holds the environment, where no guest does."""

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
            # As much of it as fits is there when the guest starts.
            program = memoryview(guest_program())
            program = program[transport.send_nowait(program) :]
            try:
                await self._engine.start(ref)
            except ProviderError as error:
                if NO_PYTHON.search(error.message):
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
            # The guest starts up meanwhile; if it could not, it is what says why.
            attributes = await self._engine.inspect(ref)
            await send_rest(transport, program)
            channel = await self._greeted(transport, init)
            transport.watch(Ending(self._engine, ref))
            container = await described(
                self._engine,
                attributes or await self._inspected(ref),
                self._info,
                self._isolation,
                user=self._image.user,
                inner=inner_files(channel),
            )
            channel = await self._shortcut(container, transport) or channel
        except BaseException:
            transport.close()
            raise
        return DockerSandbox(channel, container)

    async def _shortcut(
        self, container: Container, attached: DockerTransport
    ) -> GuestChannel | None:
        """Reach the guest past the engine, if it is on this machine and on its kernel."""
        near = self._engine.endpoint.unix_path is not None and container.files.where == "host"
        if not (near and self._isolation is IsolationTier.CONTAINER and wanted()):
            return None
        sock = await reach(int(container.attributes["State"]["Pid"]))
        if sock is None:
            return None
        transport = DirectTransport(sock, attached)
        try:
            return await GuestChannel.open(transport, None)
        except BaseException:
            transport.close()
            raise

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
        """Make a container whose first process merely keeps it, for an image without Python."""
        request, image = self._request, self._image
        config = self._container("none", keeper_command(request.timeout), init=True)
        ref = await self._create(config, keeper=True)
        record = json.dumps({"env": dict(request.env), "secrets": sorted(request.secret_names)})
        # For those who attach later. Commands can read it no more than they can end the keeper.
        await self._engine.put_file(ref, RECORD, record.encode(), KEEPER)
        lease: socket.socket | None = None
        ending = Ending(self._engine, ref)
        try:
            if lease_wanted():
                lease, _ = await self._engine.attach(ref)
            await self._start(ref)
            await ending.watch()
            return await exec_sandbox(
                self._engine,
                await self._inspected(ref),
                self._info,
                self._isolation,
                user=image.user,
                record=json.loads(record),
                remaining=request.timeout,
                ending=ending,
                lease=lease,
            )
        except BaseException:
            ending.close()
            if lease is not None:
                lease.close()
            raise

    async def _start(self, ref: str) -> None:
        try:
            await self._engine.start(ref)
        except ProviderError as error:
            if "/bin/sh" in error.message and "no such file" in error.message:
                raise CreationError(
                    "The image has neither python3 nor /bin/sh, so no command can be run in it.",
                    hint="Use an image with one of them.",
                    retryable=False,
                ) from error
            raise

    async def _inspected(self, ref: str) -> Json:
        attributes = await self._engine.inspect(ref)
        if attributes is None:
            raise CreationError("The container was removed while it was made.")
        return attributes

    async def _create(self, config: Json, *, keeper: bool = False) -> str:
        request, user = self._request, self._image.user
        ref = await self._engine.create(request.name, config, self._config.platform, self._pending)
        root = user.partition(":")[0] in ("", "0", "root")
        if keeper or not root or self._workdir != WORKDIR:
            # The engine makes the working directory, and for root alone.
            uid, gid = (0, 0) if root else await numeric_user(self._engine, ref, user)
            await self._engine.put_folder(ref, WORKDIR, uid, gid)
        return ref

    def _container(self, guest: str, command: list[str], *, init: bool) -> Json:
        request = self._request
        user = {"User": f"{KEEPER}:{KEEPER}"} if init else {}
        return {
            **user,
            "Image": request.template or DEFAULT_IMAGE,
            "Hostname": "sandbox",
            "Entrypoint": command,
            "Cmd": [],
            "WorkingDir": self._workdir,
            "Healthcheck": {"Test": ["NONE"]},
            "Labels": labels_for(request.timeout, request.metadata, guest, self._config.runtime),
            "Tty": False,
            "OpenStdin": True,
            # The end of our connection is the end of the first process's stdin: the lease.
            "StdinOnce": True,
            "AttachStdin": True,
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


def keeper_command(lifetime: float) -> list[str]:
    """Return the command that keeps a container for a time, or until the lease ends."""
    seconds = str(math.ceil(lifetime))
    return ["/bin/sh", "-c", KEEP, "keep", seconds, "1" if lease_wanted() else "0"]


async def send_rest(transport: DockerTransport, data: memoryview) -> None:
    """Send all of it; if the other side is gone, who reads finds out why."""
    with suppress(OSError):
        while data := data[transport.send_nowait(data) :]:
            await transport.wait_sendable()


async def described(
    engine: Engine,
    attributes: Json,
    info: EngineInfo,
    isolation: IsolationTier,
    *,
    user: str,
    inner: CgroupFiles,
) -> Container:
    """Read back what is in force on a container that has just started, or runs."""
    pid, ref = int(attributes["State"]["Pid"]), attributes["Id"]
    files: CgroupFiles = HostCgroup.of(pid, ref) or inner
    policy = await read_policy(
        attributes,
        files,
        cgroup_version=info.cgroup_version,
        isolation=isolation,
        lifetime=lifetime_of(attributes),
        user=user,
    )
    return Container(engine, ref, attributes, policy, files, info.cgroup_version)


def lifetime_of(attributes: Json) -> float:
    """Return the lifetime that a container was made with."""
    labels: dict[str, str] = attributes["Config"].get("Labels") or {}
    try:
        return float(labels.get(TIMEOUT, ""))
    except ValueError:
        return 0.0


async def exec_sandbox(
    engine: Engine,
    attributes: Json,
    info: EngineInfo,
    isolation: IsolationTier,
    *,
    user: str,
    record: Json,
    remaining: float,
    ending: Ending,
    lease: socket.socket | None,
) -> ExecSandbox:
    """Make a sandbox of a container without a guest that runs."""
    ref = attributes["Id"]
    memory: float = attributes["HostConfig"]["Memory"] / (1024 * 1024)
    host = ExecHost(
        engine,
        ref,
        user=user,
        workdir=attributes["Config"]["WorkingDir"],
        ending=ending,
        autopsy=lambda: examine(engine, ref, memory_mb=memory),
    )
    await host.find_tools()
    container = await described(
        engine, attributes, info, isolation, user=user, inner=InnerCgroup(host.read_small)
    )
    env: dict[str, str] = record["env"]
    return ExecSandbox(
        container,
        host,
        env=env,
        secrets=tuple(env[name] for name in record["secrets"]),
        remaining=remaining,
        ending=ending,
        lease=lease,
    )


async def attach(engine: Engine, attributes: Json, info: EngineInfo) -> SandboxDriver:
    """Attach to a running container of ours as a further host."""
    runtime = runtime_of(attributes, info)
    isolation = tier_of(info.runtimes.get(runtime, runtime))
    ending = Ending(engine, attributes["Id"])
    try:
        await ending.watch()
        if attributes["Config"]["Labels"].get(GUEST) == "python":
            return await _attach_guest(engine, attributes, info, isolation, ending)
        content = await engine.get_file(attributes["Id"], f"/{RECORD}")
        if content is None:
            raise ConnectError("The container has lost the record of its sandbox.")
        image = await engine.image(attributes["Image"])
        began = datetime.fromisoformat(attributes["State"]["StartedAt"][:19] + "+00:00")
        age = (datetime.now(UTC) - began).total_seconds()
        return await exec_sandbox(
            engine,
            attributes,
            info,
            isolation,
            user="" if image is None else image.user,
            record=json.loads(content),
            remaining=lifetime_of(attributes) - age,
            ending=ending,
            lease=None,
        )
    except BaseException:
        ending.close()
        raise


async def _attach_guest(
    engine: Engine,
    attributes: Json,
    info: EngineInfo,
    isolation: IsolationTier,
    ending: Ending,
) -> SandboxDriver:
    ref = attributes["Id"]
    config = {
        "Cmd": relay_command(),
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
    }
    _, sock, rest = await engine.exec(ref, config)
    memory: float = attributes["HostConfig"]["Memory"] / (1024 * 1024)
    transport = DockerTransport(
        FrameReader(sock, rest, ending), lambda: examine(engine, ref, memory_mb=memory)
    )
    try:
        channel = await GuestChannel.open(transport, None)
        container = await described(
            engine,
            attributes,
            info,
            isolation,
            user=str(attributes["Config"].get("User") or ""),
            inner=inner_files(channel),
        )
    except BaseException:
        transport.close()
        raise
    return DockerSandbox(channel, container)
