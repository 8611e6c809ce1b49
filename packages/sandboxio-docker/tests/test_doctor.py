"""What `sandboxio doctor` says of engines: a real one, and those that a test plays."""

from __future__ import annotations

import http.server
import json
import socketserver
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from sandboxio.spi import Check
from sandboxio_docker import DockerBackend, _doctor

VERSION = {"ApiVersion": "1.47", "MinAPIVersion": "1.24"}

INFO: dict[str, Any] = {
    "ServerVersion": "27.3",
    "OSType": "linux",
    "Architecture": "x86_64",
    "KernelVersion": "6.1",
    "CgroupVersion": "2",
    "CgroupDriver": "systemd",
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "DefaultRuntime": "runc",
    "Runtimes": {"runc": {"path": "runc"}},
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
}

IMAGE = {"Os": "linux", "Architecture": "amd64"}


class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """An engine that answers what a test says: a value as JSON, bytes as they are."""

    daemon_threads = True
    info: object = INFO
    version: object = VERSION
    image: object = IMAGE


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        engine = cast("Engine", self.server)
        paths = {"/version": engine.version, "/info": engine.info}
        answer = paths.get(self.path, engine.image)
        if isinstance(answer, bytes):
            self.wfile.write(answer)
            self.close_connection = True
            return
        content = json.dumps(answer or {"message": "no such image"}).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        return


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(str(tmp_path / "engine.sock"), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture
def look(engine: Engine) -> Callable[..., Any]:
    """Returns a function that asks a backend of that engine."""

    async def checks(**options: Any) -> dict[str, Check]:
        host = f"unix://{engine.server_address!s}"
        return await found(DockerBackend(host=host, **options).diagnose())

    return checks


@pytest.fixture(autouse=True)
def _as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """How fast a busy machine answers is not what is tested."""
    monkeypatch.setattr(_doctor, "ANSWER_BOUND", 30.0)


async def found(checks: AsyncIterator[Check]) -> dict[str, Check]:
    result: dict[str, Check] = {}
    async for check in checks:
        assert check.name not in result
        result[check.name] = check
    return result


async def test_healthy_engine_is_described_without_a_failure(look: Any, engine: Engine) -> None:
    checks = await look()
    assert {check.status for check in checks.values()} == {"ok", "note"}
    assert [name for name, check in checks.items() if check.status == "note"] == [
        "caps",
        "user namespaces",
    ]
    assert str(engine.server_address) in checks["endpoint"].detail
    assert "from DockerConfig(host=...)" in checks["endpoint"].detail
    assert checks["engine"].detail == "27.3, API 1.47 (from 1.24 on), kernel 6.1"
    assert checks["platform"].detail == "linux/x86_64"
    assert "v2 by systemd" in checks["cgroup"].detail
    assert checks["runtime"].detail == "runc, isolation container"
    assert checks["image"].detail == "python:3.12-slim is there, for linux/amd64"


@pytest.mark.parametrize(
    ("options", "line", "detail"),
    [
        (["name=rootless", "name=seccomp"], "user namespaces", "rootless"),
        (["name=userns", "name=seccomp"], "user namespaces", "remapped"),
        (["name=selinux", "name=seccomp"], "selinux", "on"),
    ],
)
async def test_confinement_of_the_engine_is_said(
    look: Any, engine: Engine, options: list[str], line: str, detail: str
) -> None:
    engine.info = {**INFO, "SecurityOptions": options}
    check = (await look())[line]
    assert check.status == "ok"
    assert detail in check.detail


async def test_engine_without_confinement_is_a_note_with_a_way_out(
    look: Any, engine: Engine
) -> None:
    engine.info = {**INFO, "SecurityOptions": None}
    checks = await look()
    for name in ("seccomp", "apparmor", "user namespaces"):
        assert checks[name].status == "note"
        assert checks[name].hint


@pytest.mark.parametrize(
    ("change", "line", "hint"),
    [
        ({"MemoryLimit": False}, "cgroup", "cgroup delegation"),
        ({"OSType": "windows"}, "platform", "Linux containers"),
        ({"Runtimes": {}, "DefaultRuntime": "crun"}, "runtime", "daemon.json"),
    ],
)
async def test_engine_that_cannot_do_what_is_needed_fails_with_the_fix(
    look: Any, engine: Engine, change: dict[str, Any], line: str, hint: str
) -> None:
    engine.info = {**INFO, **change}
    checks = await look()
    assert [name for name, check in checks.items() if check.status == "failed"] == [line]
    assert hint in checks[line].hint


async def test_runtime_that_is_asked_for_and_missing_fails(look: Any) -> None:
    check = (await look(runtime="runsc"))["runtime"]
    assert check.status == "failed"
    assert "'runsc'" in check.detail


async def test_image_that_is_missing_or_for_another_platform_is_said(
    look: Any, engine: Engine
) -> None:
    engine.image = None
    assert (await look())["image"].status == "note"
    never = (await look(pull="never", image="agent:1"))["image"]
    assert (never.status, never.hint) == ("failed", "docker pull agent:1")
    engine.image = {"Os": "linux", "Architecture": "arm64"}
    other = (await look())["image"]
    assert other.status == "note"
    assert "linux/arm64" in other.detail


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnope",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
        b"SSH-2.0-OpenSSH\r\n",
        b"",
    ],
)
async def test_what_answers_and_is_no_engine_fails_with_its_address(
    look: Any, engine: Engine, answer: bytes
) -> None:
    engine.info = answer
    checks = await look()
    assert checks["endpoint"].status == "ok"
    assert list(checks)[-1] == "engine"
    assert checks["engine"].status == "failed"
    assert str(engine.server_address) in checks["engine"].detail


async def test_socket_that_nobody_listens_at_and_bad_addresses_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = await found(DockerBackend(host=f"unix://{tmp_path}/none").diagnose())
    assert nobody["engine"].status == "failed"
    assert "DOCKER_HOST" in str(nobody["engine"].hint)
    monkeypatch.setenv("DOCKER_HOST", "nonsense://x")
    bad = await found(DockerBackend().diagnose())
    assert list(bad) == ["caps", "endpoint"]
    assert bad["endpoint"].status == "failed"


async def test_lease_that_is_off_is_a_note(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBX_DOCKER_REAPER", "0")
    check = (await look())["lease"]
    assert (check.status, check.hint) == ("note", "unset SBX_DOCKER_REAPER")


@pytest.mark.docker
async def test_real_engine_has_no_failing_check() -> None:
    checks = await found(DockerBackend().diagnose())
    assert [check for check in checks.values() if check.status == "failed"] == []
    assert {"endpoint", "engine", "platform", "cgroup", "runtime", "image"} <= checks.keys()
