"""The engine, through its SDK: the only module that knows the SDK.

One client per backend, made at first use. Its calls block, so each runs in a worker thread; what
is long-lived (attach, exec, wait) is a socket of its own and holds no thread.
"""

from __future__ import annotations

import io
import socket
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

import docker  # type: ignore[import-untyped]
import docker.errors  # type: ignore[import-untyped]
import docker.tls  # type: ignore[import-untyped]
import docker.utils  # type: ignore[import-untyped]
import requests
import urllib3

from sandboxio.errors import ConnectError

from . import _errors
from ._dial import Refusal, dial, upgrade
from ._endpoint import DEFAULT_SOCKET, Endpoint, Tls, find_endpoint
from ._engine_info import EngineInfo, engine_info
from ._pending import Pending
from ._ssh import TunnelAdapter
from ._workers import Workers, threads_allowed

__all__ = ["Engine", "ImageFacts"]

T = TypeVar("T")

ANSWER_TIMEOUT = 60.0
"""Seconds that the engine may be silent in one call. Callers have shorter bounds of their own; this
one ends the thread that an abandoned call has left."""

CONFLICT = 409
"""What the engine says about a container that it is removing already."""

MAX_SMALL_FILE = 1 << 20
"""Bytes of a file that is read from an image, such as its list of users."""

FIRST_VERSION = "1.24"
"""Version of the API with which the engine is asked for its own; any that the SDK takes will do."""

SDK_SCHEME = "http+docker://"
"""How the SDK's addresses of engines behind sockets begin."""

Json = dict[str, Any]

Api = Any
"""The SDK's client of the engine's API. It is not typed, and its stubs know only a part of it."""


@dataclass(frozen=True)
class ImageFacts:
    """What an image says of itself."""

    id: str
    user: str
    workdir: str
    env: tuple[str, ...] = field(repr=False)


class Engine:
    """Calls to one engine, with errors of sandboxio."""

    def __init__(self, host: str | None = None) -> None:
        self._host = host
        self._workers = Workers()
        self._lock = threading.Lock()
        self._client: docker.DockerClient | None = None
        self._endpoint: Endpoint | None = None
        self._info: EngineInfo | None = None

    @property
    def endpoint(self) -> Endpoint:
        """Where it is; found at first use."""
        if self._endpoint is None:
            self._endpoint = find_endpoint(self._host)
        return self._endpoint

    # ----- how calls are made

    def _connected(self) -> docker.DockerClient:
        """Return the client; in a worker thread.

        Raises:
            OSError: Nothing answers at the engine's socket.
        """
        if self.endpoint.unix_path is not None:
            # Costs microseconds. The SDK would leak its socket, and hide why, if it got no answer.
            dial(self.endpoint).close()
        with self._lock:
            if self._client is None:
                self._client = _connect(self.endpoint)
            return self._client

    async def _call(
        self,
        what: str,
        work: Callable[[Api], T],
        *,
        undo: Callable[[T], None] | None = None,
        teardown: bool = False,
    ) -> T:
        """Make one call in a worker thread; only errors of sandboxio come out."""
        return await self._workers.run(
            lambda: self._translated(what, lambda: work(self._connected().api)),
            undo=undo,
            teardown=teardown,
        )

    def _translated(self, what: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except docker.errors.APIError as error:
            if _errors.wants_tls(str(error)):
                raise _errors.unreachable(self.endpoint, error) from error
            status = error.response.status_code if error.response is not None else 0
            raise _errors.refused(what, status, error.explanation or str(error)) from error
        except Refusal as error:
            raise _errors.refused(what, error.status, error.text) from error
        except (
            docker.errors.DockerException,
            requests.exceptions.RequestException,
            urllib3.exceptions.HTTPError,
            OSError,
        ) as error:
            raise _errors.unreachable(self.endpoint, error) from error

    async def _stream(
        self, what: str, path: str, body: object = None
    ) -> tuple[socket.socket, bytes]:
        """Open a connection that becomes a stream; it is closed if nobody takes it."""
        return await self._call(
            what,
            lambda api: self._opened(api, path, body),
            undo=lambda opened: opened[0].close(),
        )

    def _opened(self, api: Api, path: str, body: object) -> tuple[socket.socket, bytes]:
        sock = dial(self.endpoint)
        try:
            return sock, upgrade(sock, f"/v{api.api_version}{path}", body)
        except BaseException:
            sock.close()
            raise

    # ----- the engine

    async def info(self, *, fresh: bool = False) -> EngineInfo:
        """Ask what the engine is and can do; once, unless `fresh`."""
        if self._info is None or fresh:
            self._info = await self._call(
                "Asking the engine", lambda api: engine_info(api.info(), str(api.api_version))
            )
        return self._info

    # ----- images

    async def image(self, name: str) -> ImageFacts | None:
        """Describe an image that the engine has; ``None`` if it has none of that name."""

        def work(api: Api) -> ImageFacts | None:
            try:
                found: Json = api.inspect_image(name)
            except docker.errors.ImageNotFound:
                return None
            config: Json = found.get("Config") or {}
            return ImageFacts(
                id=found["Id"],
                user=config.get("User") or "",
                workdir=config.get("WorkingDir") or "",
                env=tuple(config.get("Env") or ()),
            )

        return await self._call("Looking for the image", work)

    async def pull(self, name: str, platform: str | None, report: Callable[[Json], None]) -> None:
        """Pull an image; `report` gets each line of the engine's answer, in a thread."""

        def work(api: Api) -> None:
            repository, tag = docker.utils.parse_repository_tag(name)
            answers: Iterator[Json] = api.pull(
                repository, tag=tag or "latest", stream=True, decode=True, platform=platform
            )
            failure = ""
            for answer in answers:  # to its end, or its connection stays open
                failure = failure or str(answer.get("error", ""))
                report(answer)
            if failure:
                raise Refusal(0, failure)

        await self._call(f"Pulling {name}", work)

    # ----- containers

    async def create(self, name: str, config: Json, platform: str | None, pending: Pending) -> str:
        """Create a container and return its id; `pending` knows of it even when we are cancelled."""

        def work(api: Api) -> str:
            with pending.asking(lambda: _remove_quietly(api, name)):
                created: Json = api.create_container_from_config(config, name, platform)
            return str(created["Id"])

        try:
            return await self._call("Creating the container", work)
        except BaseException:
            pending.abandon()
            raise

    async def start(self, ref: str) -> None:
        """Start a container."""
        await self._call("Starting the container", lambda api: api.start(ref))

    async def inspect(self, ref: str, *, teardown: bool = False) -> Json | None:
        """Describe a container; ``None`` if there is none."""

        def work(api: Api) -> Json | None:
            try:
                found: Json = api.inspect_container(ref)
            except docker.errors.NotFound:
                return None
            return found

        return await self._call("Looking at the container", work, teardown=teardown)

    async def remove(self, ref: str) -> None:
        """Remove a container with its volumes, and return when it is gone."""
        await self._call("Removing the container", lambda api: _remove(api, ref), teardown=True)

    async def containers(self, labels: list[str]) -> list[Json]:
        """List containers that have all these labels, in whatever state."""
        return await self._call(
            "Listing containers",
            lambda api: api.containers(all=True, filters={"label": labels}),
        )

    async def put_folder(self, ref: str, path: str, uid: int, gid: int) -> None:
        """Make a folder in a container that has not started, for one user."""
        entry = tarfile.TarInfo(path.strip("/"))
        entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o755, uid, gid
        await self._put(ref, "/", [(entry, b"")])

    async def put_file(self, ref: str, path: str, data: bytes, uid: int) -> None:
        """Write a small file into a container, readable by one user alone."""
        entry = tarfile.TarInfo(path.strip("/"))
        entry.mode, entry.uid, entry.size = 0o600, uid, len(data)
        await self._put(ref, "/", [(entry, data)])

    async def _put(
        self, ref: str, folder: str, entries: list[tuple[tarfile.TarInfo, bytes]]
    ) -> None:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for entry, data in entries:
                tar.addfile(entry, io.BytesIO(data))
        content = archive.getvalue()
        await self._call(
            "Preparing the container", lambda api: api.put_archive(ref, folder, content)
        )

    async def get_file(self, ref: str, path: str) -> bytes | None:
        """Read a small file of a container; ``None`` if it is not there."""

        def work(api: Api) -> bytes | None:
            try:
                chunks, _ = api.get_archive(ref, path)
            except docker.errors.NotFound:
                return None
            archive = bytearray()
            for chunk in chunks:
                archive += chunk
                if len(archive) > MAX_SMALL_FILE:
                    raise ConnectError(f"{path} in the container is too large to be true.")
            with tarfile.open(fileobj=io.BytesIO(bytes(archive))) as tar:
                member = tar.next()
                file = tar.extractfile(member) if member is not None and member.isfile() else None
                return file.read() if file else None

        return await self._call(f"Reading {path}", work)

    async def events(self, ref: str) -> list[Json]:
        """Return what happened to a container, as far as the engine remembers."""

        def work(api: Api) -> list[Json]:
            # Until now, or it would go on and wait for more.
            happened: Iterator[Json] = api.events(
                since=1, until=f"{time.time():.9f}", filters={"container": ref}, decode=True
            )
            return list(happened)

        return await self._call("Asking what happened", work)

    # ----- streams

    async def attach(self, ref: str) -> tuple[socket.socket, bytes]:
        """Attach to the stdin, stdout and stderr of a container's first process."""
        path = f"/containers/{quote(ref)}/attach?stdin=1&stdout=1&stderr=1&stream=1"
        return await self._stream("Attaching to the container", path)

    async def exec(
        self, ref: str, config: Json, pending: Pending | None = None
    ) -> tuple[str, socket.socket, bytes]:
        """Start a process in a running container, attached to its streams.

        `pending` knows whether it may still come into being when we are cancelled.
        """
        pending = pending or Pending()

        def work(api: Api) -> tuple[str, socket.socket, bytes]:
            with pending.asking(lambda: None):
                url = api._url("/containers/{0}/exec", ref)
                ident = str(api._result(api._post_json(url, data=config), json=True)["Id"])
                pending.created = ident
                path = f"/exec/{quote(ident)}/start"
                return ident, *self._opened(api, path, {"Detach": False, "Tty": False})

        try:
            return await self._call(
                "Starting the command", work, undo=lambda started: started[1].close()
            )
        except BaseException:
            pending.abandon()
            raise

    async def exec_state(self, ident: str, *, teardown: bool = False) -> Json | None:
        """Describe a process that `exec` started; ``None`` if its container is gone."""

        def work(api: Api) -> Json | None:
            try:
                found: Json = api.exec_inspect(ident)
            except docker.errors.NotFound:
                return None
            return found

        return await self._call("Looking at the command", work, teardown=teardown)

    async def ending(self, ref: str) -> tuple[socket.socket, bool]:
        """Return a socket that becomes readable when the container ends, and whether it has."""
        path = f"/containers/{quote(ref)}/wait?condition=not-running"
        sock, answer = await self._stream("Watching the container", path)
        return sock, bool(answer)

    def container(self, attributes: Json) -> object:
        """Return the SDK's own object for a container that was inspected."""
        assert self._client is not None
        return self._client.containers.prepare_model(attributes)


def _connect(endpoint: Endpoint) -> docker.DockerClient:
    """Make the client, in the version of the API that the engine has."""
    asking = _client_of(endpoint, FIRST_VERSION)
    try:
        version: Json = asking.api.version(api_version=False)
    finally:
        asking.close()
    return _client_of(endpoint, str(version["ApiVersion"]))


def _client_of(endpoint: Endpoint, version: str) -> docker.DockerClient:
    over_ssh = endpoint.url.startswith("ssh://")
    client = docker.DockerClient(
        # Over ssh it believes in a socket, and is given another way there.
        base_url=f"unix://{DEFAULT_SOCKET}" if over_ssh else endpoint.url,
        version=version,
        timeout=int(ANSWER_TIMEOUT),
        tls=_sdk_tls(endpoint.tls) if endpoint.tls else False,
        max_pool_size=threads_allowed() + 1,
    )
    if over_ssh:
        adapter = TunnelAdapter(lambda: dial(endpoint), ANSWER_TIMEOUT, threads_allowed() + 1)
        client.api.mount(SDK_SCHEME, adapter)
    if endpoint.tls and endpoint.tls.ca:
        # Or REQUESTS_CA_BUNDLE, meant for the web, would be taken for the engine's authority.
        client.api.trust_env = False
    return client


def _sdk_tls(tls: Tls) -> docker.tls.TLSConfig:
    pair = (tls.cert, tls.key) if tls.cert and tls.key else None
    return docker.tls.TLSConfig(client_cert=pair, ca_cert=tls.ca, verify=tls.verify)


def _remove(api: Api, ref: str) -> None:
    """Remove a container, or wait until whoever is at it already has."""
    with suppress(docker.errors.NotFound):
        if api.inspect_container(ref)["State"]["Paused"]:
            # gVisor does not get the signal otherwise; another runtime would not need it.
            with suppress(docker.errors.APIError):
                api.unpause(ref)
        try:
            api.remove_container(ref, v=True, force=True)
        except docker.errors.APIError as error:
            if error.response is not None and error.response.status_code == CONFLICT:
                api.wait(ref, condition="removed", timeout=ANSWER_TIMEOUT)
            elif api.inspect_container(ref)["State"]["Running"]:
                raise
            else:
                # It ended by itself meanwhile, which Podman takes for a reason not to remove it.
                api.remove_container(ref, v=True, force=True)


def _remove_quietly(api: Api, name: str) -> None:
    """Remove what an abandoned create made; if that fails, `sandboxio reap` finds it."""
    with suppress(docker.errors.DockerException, requests.exceptions.RequestException):
        _remove(api, name)
