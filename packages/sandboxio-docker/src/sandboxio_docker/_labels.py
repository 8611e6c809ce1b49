"""What a container's labels say: that it is ours, whose, for how long, and the caller's metadata."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from sandboxio.models import ManagedSandbox

__all__ = ["MANAGED", "filters_for", "labels_for", "managed_sandbox"]

PREFIX = "io.sandboxio."
MANAGED = f"{PREFIX}managed"
SESSION = f"{PREFIX}session"
TIMEOUT = f"{PREFIX}timeout"
META = f"{PREFIX}meta."
GUEST = f"{PREFIX}guest"
RUNTIME = f"{PREFIX}runtime"
OWNER_HOST = f"{PREFIX}owner.host"
OWNER_SPACE = f"{PREFIX}owner.space"
OWNER_START = f"{PREFIX}owner.start"

Json = dict[str, Any]

STATES: Mapping[str, Literal["running", "stopped", "paused"]] = {
    "running": "running",
    "restarting": "running",
    "removing": "running",
    "paused": "paused",
}
"""What the engine calls states; all others (created, exited, dead) are ``"stopped"``."""


def labels_for(
    timeout: float, metadata: Mapping[str, str], guest: str, runtime: str | None
) -> dict[str, str]:
    """Return the labels of a new container; `runtime` is the one that was asked for, if any."""
    pid = os.getpid()
    return {
        MANAGED: "true",
        SESSION: str(pid),
        TIMEOUT: f"{timeout:g}",
        GUEST: guest,
        **({RUNTIME: runtime} if runtime else {}),
        OWNER_HOST: socket.gethostname(),
        OWNER_SPACE: _space(),
        OWNER_START: _started(pid) or "",
        **{META + key: value for key, value in metadata.items()},
    }


def filters_for(labels: Mapping[str, str]) -> list[str]:
    """Return the engine's label filters for containers of ours with this metadata."""
    return [f"{MANAGED}=true", *(f"{META}{key}={value}" for key, value in labels.items())]


def managed_sandbox(container: Json) -> ManagedSandbox:
    """Describe one of ours, from the engine's list."""
    labels: dict[str, str] = container.get("Labels") or {}
    owner = None
    if SESSION in labels:
        owner = f"pid {labels[SESSION]} on {labels.get(OWNER_HOST, '?')}"
    created: object = container.get("Created")
    return ManagedSandbox(
        sandbox_id=str(container["Id"]),
        backend="docker",
        state=STATES.get(str(container.get("State")), "stopped"),
        created_at=datetime.fromtimestamp(created, UTC) if isinstance(created, int) else None,
        labels={
            key.removeprefix(META): value for key, value in labels.items() if key.startswith(META)
        },
        owner=owner,
        owner_alive=owner_alive(labels),
    )


def owner_alive(labels: Mapping[str, str]) -> bool | None:
    """Say whether the process that made a container lives; ``None`` if that cannot be told here.

    A pid means something on its own machine, since its last boot and in its pid namespace, and it
    is used again: the start time tells two processes of one pid apart.
    """
    pid, start = labels.get(SESSION, ""), labels.get(OWNER_START, "")
    here = (labels.get(OWNER_HOST), labels.get(OWNER_SPACE)) == (socket.gethostname(), _space())
    if not here or not start or not pid.isdigit():
        return None
    return _started(int(pid)) == start


def _space() -> str:
    """Name this boot of this machine and our pid namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Return when a process started, in ticks since the boot; ``None`` if it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in ("Z", "X") else None
