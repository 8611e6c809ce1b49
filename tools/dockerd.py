"""Ask the Docker Engine without its SDK, which only the Docker adapter may know."""

from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Any, Final
from urllib.parse import quote

LABEL: Final = "io.sandboxio.managed"

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


def managed_containers() -> list[str]:
    """Return the names of all containers that carry our label; empty when no daemon answers."""
    filters = quote(json.dumps({"label": [LABEL]}))
    answer = get(f"/containers/json?all=true&filters={filters}")
    containers: list[dict[str, Any]] = json.loads(answer) if answer else []
    return sorted(str(container["Names"][0]).lstrip("/") for container in containers)
