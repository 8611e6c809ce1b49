"""Ask the Docker Engine without its SDK, which only the Docker adapter may know."""

from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Any, Final
from urllib.parse import quote

LABEL: Final = "io.sandboxio.managed"

# What the tests run in: images of a public registry, unless the environment names others. Those that
# need no registry are made, and named in the environment, by `tools/docker_engine.py images`.
PYTHON_IMAGE: Final = os.environ.get("SBX_TEST_IMAGE") or "python:3.12-slim"
BUSYBOX_IMAGE: Final = os.environ.get("SBX_TEST_BUSYBOX_IMAGE") or "busybox:1.36"

# Where this is "1", an engine was promised: what it lacks is a failure and no reason to skip.
REQUIRE: Final = "SBX_REQUIRE_DOCKER"

# A daemon on this machine answers a ping in milliseconds. One that is starved of CPU gets this long.
ANSWER_SECONDS: Final = 5.0


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def get(path: str) -> bytes | None:
    """Return what the daemon's socket answers to a GET, or `None` when nothing does."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not host.startswith("unix://"):
        return None  # a remote daemon is nobody's test machine
    connection = _UnixConnection(host.removeprefix("unix://"))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read() if answer.status == http.client.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def answers() -> bool:
    """Return whether a Docker daemon answers on this machine."""
    return get("/_ping") is not None


def missing() -> str | None:
    """Return why the tests of the Docker adapter cannot run here; `None` when they can."""
    if not answers():
        return "docker: no Docker daemon answers on this machine"
    for variable, image in (
        ("SBX_TEST_IMAGE", PYTHON_IMAGE),
        ("SBX_TEST_BUSYBOX_IMAGE", BUSYBOX_IMAGE),
    ):
        if get(f"/images/{quote(image)}/json") is None:
            return (
                f"docker: the daemon has no image {image} ({variable}): "
                "pull it, or make one with tools/docker_engine.py images"
            )
    return None


def promised() -> bool:
    """Return whether the tests of the Docker adapter have to run here."""
    return os.environ.get(REQUIRE) == "1"


def managed_containers() -> list[str]:
    """Return the names of all containers that carry our label; empty when no daemon answers."""
    filters = quote(json.dumps({"label": [LABEL]}))
    answer = get(f"/containers/json?all=true&filters={filters}")
    containers: list[dict[str, Any]] = json.loads(answer) if answer else []
    return sorted(str(container["Names"][0]).lstrip("/") for container in containers)
