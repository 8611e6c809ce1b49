"""Where the engine is, found as the Docker CLI finds it, and remembered with its source."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from sandboxio.errors import ConfigurationError

__all__ = ["Endpoint", "Tls", "find_endpoint"]

DEFAULT_SOCKET = "/var/run/docker.sock"

SCHEMES = ("unix", "tcp", "http", "https", "ssh", "npipe")


@dataclass(frozen=True)
class Tls:
    """Certificates for an engine behind TLS; a path is ``None`` where there is no such file."""

    ca: str | None
    cert: str | None
    key: str | None
    verify: bool


@dataclass(frozen=True)
class Endpoint:
    """One engine.

    Attributes:
        url: ``unix:///path``, ``tcp://host:port``, ``ssh://user@host`` or ``npipe:////./pipe/name``.
        source: Where the address came from, for every error that names it.
        tls: Certificates, or ``None`` for a connection in the clear.
    """

    url: str
    source: str
    tls: Tls | None = None

    def __str__(self) -> str:
        return f"{self.url} (from {self.source})"

    @property
    def unix_path(self) -> str | None:
        """Path of its socket, if it is one of this machine."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else None


def find_endpoint(
    host: str | None = None, environ: Mapping[str, str] | None = None, home: Path | None = None
) -> Endpoint:
    """Find the engine: what is configured, else the first socket that exists.

    The order is the Docker CLI's: ``DOCKER_HOST``, ``DOCKER_CONTEXT``, the current context of its
    configuration, the default socket. Where that socket does not exist, the sockets of rootless
    Docker, Docker Desktop, Colima and Podman follow.

    Args:
        host: An address that wins over all of them.
        environ: The environment; this process's own if ``None``.
        home: The home folder; this user's own if ``None``.

    Raises:
        ConfigurationError: What is configured cannot be used; it is never passed over.
    """
    env = os.environ if environ is None else environ
    folder = Path.home() if home is None else home
    if host:
        return _endpoint(host, "DockerConfig(host=...)", _tls_of_environment(env, folder))
    if address := env.get("DOCKER_HOST", ""):
        return _endpoint(address, "DOCKER_HOST", _tls_of_environment(env, folder))
    configuration = Path(env.get("DOCKER_CONFIG") or folder / ".docker")
    name, source = env.get("DOCKER_CONTEXT", ""), "DOCKER_CONTEXT"
    if not name:
        name, source = _current_context(configuration)
    if name and name != "default":
        return _of_context(name, source, configuration)
    for path, what in _sockets(env, folder):
        if _is_socket(path):
            return Endpoint(f"unix://{path}", what)
    return Endpoint(f"unix://{DEFAULT_SOCKET}", "the default")


def _endpoint(address: str, source: str, tls: Tls | None) -> Endpoint:
    url = address.strip()
    if url.startswith("/"):
        url = f"unix://{url}"
    elif "://" not in url:
        url = f"tcp://{url}"
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    usable = parts.scheme in SCHEMES and (
        parts.path.startswith("/")
        if parts.scheme in ("unix", "npipe")
        else bool(parts.hostname) and port != -1 and " " not in parts.netloc
    )
    if not usable:
        raise ConfigurationError(
            f"{source} is {address!r}, which is not the address of a Docker Engine.",
            hint="Use unix:///path/to/docker.sock, tcp://host:port or ssh://user@host.",
        )
    if parts.scheme in ("http", "https"):
        url = f"tcp://{parts.netloc}"
        if parts.scheme == "https" and tls is None:
            tls = Tls(None, None, None, verify=True)
    return Endpoint(url, source, tls if url.startswith("tcp://") else None)


def _tls_of_environment(env: Mapping[str, str], home: Path) -> Tls | None:
    verify = bool(env.get("DOCKER_TLS_VERIFY", ""))
    folder = env.get("DOCKER_CERT_PATH", "")
    if not verify and not folder:
        return None
    return _tls_of_folder(
        Path(folder) if folder else Path(env.get("DOCKER_CONFIG") or home / ".docker"), verify
    )


def _tls_of_folder(folder: Path, verify: bool) -> Tls:
    def there(name: str) -> str | None:
        path = folder / name
        return str(path) if path.is_file() else None

    return Tls(there("ca.pem"), there("cert.pem"), there("key.pem"), verify)


def _current_context(configuration: Path) -> tuple[str, str]:
    file = configuration / "config.json"
    try:
        content = file.read_text(encoding="utf-8")
    except OSError:
        return "", ""
    name = _parsed(content, file).get("currentContext", "")
    return (name if isinstance(name, str) else ""), f"the current context in {file}"


def _of_context(name: str, source: str, configuration: Path) -> Endpoint:
    # The CLI files contexts under the digest of their name.
    digest = hashlib.sha256(name.encode()).hexdigest()
    file = configuration / "contexts" / "meta" / digest / "meta.json"
    try:
        content = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"The Docker context {name!r} (from {source}) does not exist.",
            hint="List them with: docker context ls",
        ) from error
    docker = _mapping(_mapping(_parsed(content, file).get("Endpoints")).get("docker"))
    address = docker.get("Host")
    if not isinstance(address, str) or not address:
        raise ConfigurationError(
            f"The Docker context {name!r} (from {source}) has no address of an engine.",
            hint=f"Look at it with: docker context inspect {name}",
        )
    certificates = configuration / "contexts" / "tls" / digest / "docker"
    verify = not docker.get("SkipTLSVerify", False)
    tls = _tls_of_folder(certificates, verify) if certificates.is_dir() else None
    return _endpoint(address, f"the Docker context {name!r}, from {source}", tls)


def _parsed(content: str, file: Path) -> Mapping[str, object]:
    try:
        value: object = json.loads(content)
    except ValueError as error:
        raise ConfigurationError(f"{file} is not JSON: {error}.") from error
    return _mapping(value)


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _sockets(env: Mapping[str, str], home: Path) -> list[tuple[Path, str]]:
    found = [(Path(DEFAULT_SOCKET), "the default")]
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if runtime:
        found.append((Path(runtime) / "docker.sock", "rootless Docker's socket"))
    found.append((home / ".docker" / "run" / "docker.sock", "Docker Desktop's socket"))
    colima = Path(env.get("COLIMA_HOME") or home / ".colima")
    found.append((colima / "default" / "docker.sock", "Colima's socket"))
    found.append((colima / "docker.sock", "Colima's socket"))
    if runtime:
        found.append((Path(runtime) / "podman" / "podman.sock", "Podman's socket"))
    found.append((Path("/run/podman/podman.sock"), "Podman's socket"))
    return found


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
