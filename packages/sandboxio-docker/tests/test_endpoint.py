"""The engine is found where the Docker CLI finds it, and the source is remembered."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from sandboxio.errors import ConfigurationError, SandboxUnreachable
from sandboxio_docker import DockerBackend, _endpoint
from sandboxio_docker._endpoint import find_endpoint
from sandboxio_docker._errors import unreachable


@pytest.fixture(autouse=True)
def no_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_endpoint, "DEFAULT_SOCKET", str(tmp_path / "default.sock"))


@pytest.fixture
def listen(tmp_path: Path) -> Generator[object, None, None]:
    """Makes sockets that exist."""
    opened: list[socket.socket] = []

    def make(name: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(path))
        opened.append(sock)
        return path

    yield make
    for sock in opened:
        sock.close()


def context(home: Path, name: str, host: str, **more: object) -> Path:
    """Write a context as the CLI does."""
    folder = home / ".docker"
    digest = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / digest
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(
        json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host, **more}}})
    )
    return folder / "contexts" / "tls" / digest / "docker"


def test_docker_host_wins_over_every_context(tmp_path: Path) -> None:
    context(tmp_path, "other", "tcp://elsewhere:1")
    env = {"DOCKER_HOST": "unix:///run/x.sock", "DOCKER_CONTEXT": "other"}
    found = find_endpoint(environ=env, home=tmp_path)
    assert (found.url, found.source) == ("unix:///run/x.sock", "DOCKER_HOST")


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("unix:///a b/docker.sock", "unix:///a b/docker.sock"),
        ("/run/docker.sock", "unix:///run/docker.sock"),
        ("tcp://10.0.0.1:2375", "tcp://10.0.0.1:2375"),
        ("10.0.0.1:2375", "tcp://10.0.0.1:2375"),
        ("http://host:1", "tcp://host:1"),
        ("ssh://me@host:22", "ssh://me@host:22"),
    ],
)
def test_every_kind_of_address_is_understood(address: str, url: str, tmp_path: Path) -> None:
    assert find_endpoint(environ={"DOCKER_HOST": address}, home=tmp_path).url == url


@pytest.mark.parametrize(
    "address", ["garbage://x", "unix://relative", "tcp://", "tcp://h:port", "ssh://", "tcp://a b"]
)
def test_garbage_is_refused_by_the_name_of_its_source(address: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="DOCKER_HOST"):
        find_endpoint(environ={"DOCKER_HOST": address}, home=tmp_path)


def test_context_of_the_environment_wins_over_the_configured_one(tmp_path: Path) -> None:
    context(tmp_path, "one", "tcp://one:1")
    context(tmp_path, "two", "tcp://two:2")
    (tmp_path / ".docker" / "config.json").write_text('{"currentContext": "one"}')
    assert find_endpoint(environ={}, home=tmp_path).url == "tcp://one:1"
    found = find_endpoint(environ={"DOCKER_CONTEXT": "two"}, home=tmp_path)
    assert found.url == "tcp://two:2"
    assert "'two'" in found.source
    assert "DOCKER_CONTEXT" in found.source


def test_context_that_is_missing_is_never_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text('{"currentContext": "gone"}')
    with pytest.raises(ConfigurationError, match=r"'gone'.*config\.json"):
        find_endpoint(environ={}, home=tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"Endpoints": 3}'])
def test_broken_context_is_named(content: str, tmp_path: Path) -> None:
    context(tmp_path, "broken", "x")
    (file,) = (tmp_path / ".docker" / "contexts" / "meta").glob("*/meta.json")
    file.write_text(content)
    with pytest.raises(ConfigurationError):
        find_endpoint(environ={"DOCKER_CONTEXT": "broken"}, home=tmp_path)


def test_certificates_of_a_context_are_used(tmp_path: Path) -> None:
    certificates = context(tmp_path, "tls", "tcp://host:2376", SkipTLSVerify=True)
    certificates.mkdir(parents=True)
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (certificates / name).touch()
    found = find_endpoint(environ={"DOCKER_CONTEXT": "tls"}, home=tmp_path)
    assert found.tls is not None
    assert found.tls.cert == str(certificates / "cert.pem")
    assert not found.tls.verify


def test_tls_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    env = {
        "DOCKER_HOST": "tcp://h:1",
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CERT_PATH": str(tmp_path),
    }
    tls = find_endpoint(environ=env, home=tmp_path).tls
    assert tls is not None
    assert (tls.ca, tls.cert, tls.verify) == (str(tmp_path / "ca.pem"), None, True)
    assert find_endpoint(environ={"DOCKER_HOST": "tcp://h:1"}, home=tmp_path).tls is None


def test_sockets_are_tried_in_order(tmp_path: Path, listen: object) -> None:
    assert callable(listen)
    env = {"XDG_RUNTIME_DIR": str(tmp_path / "run")}
    assert find_endpoint(environ=env, home=tmp_path).source == "the default"
    for name, source in (
        ("run/podman/podman.sock", "Podman"),
        (".colima/default/docker.sock", "Colima"),
        (".docker/run/docker.sock", "Docker Desktop"),
        ("run/docker.sock", "rootless"),
        ("default.sock", "the default"),
    ):
        path = listen(name)
        found = find_endpoint(environ=env, home=tmp_path)
        assert found.url == f"unix://{path}"
        assert source in found.source


async def test_error_of_a_stale_socket_says_where_it_came_from(
    tmp_path: Path, listen: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(listen)
    path = listen("stale.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with pytest.raises(SandboxUnreachable) as caught:
        await DockerBackend().create()
    assert str(path) in caught.value.message
    assert "DOCKER_HOST" in caught.value.message
    assert not (await DockerBackend().health()).ok


def test_socket_without_permission_has_its_own_hint(tmp_path: Path) -> None:
    endpoint = find_endpoint(environ={"DOCKER_HOST": "unix:///x"}, home=tmp_path)
    failed = ConnectionError("aborted")
    failed.__cause__ = PermissionError(13, "Permission denied")
    assert "usermod -aG docker" in unreachable(endpoint, failed).hint
