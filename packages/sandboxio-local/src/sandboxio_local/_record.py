"""What a state file says of a sandbox, written and read."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sandboxio.models import (
    AppliedCap,
    AppliedPolicy,
    IsolationTier,
    ManagedSandbox,
    NetworkPolicy,
)
from sandboxio_local._processes import alive, start_time
from sandboxio_local._sandbox import LocalNative

if TYPE_CHECKING:
    from pathlib import Path

    from sandboxio_local._caps import Caps
    from sandboxio_local._state import Record, StateDirectory

__all__ = [
    "LIVE",
    "MADE",
    "groups_of",
    "labels_of",
    "live",
    "made",
    "managed",
    "native_of",
    "policy_of",
]

MADE: Final = "made.json"
"""Written before anything is started: who asks for the sandbox, and what there will be to remove."""

LIVE: Final = "live.json"
"""Written once it is verified: what is in force. Without it, the sandbox is still being made."""

_CAPS: Final = ("cpu", "memory_mb", "processes", "disk_mb")


def made(caps: Caps, labels: dict[str, str]) -> Record:
    """Return the record of a sandbox that is about to be made by this process."""
    return {
        "created_at": datetime.now(UTC).isoformat(),
        "labels": labels,
        "owner": [os.getpid(), start_time(os.getpid())],
        "groups": list(caps.groups.join) if caps.groups else [],
        "events": caps.groups.events if caps.groups else "",
    }


def live(native: LocalNative, policy: AppliedPolicy) -> Record:
    """Return the record of a verified sandbox."""
    facts = asdict(policy)
    facts["isolation"] = policy.isolation.value
    return {"init": [native.init, native.init_started], "policy": facts}


def native_of(path: Path, made_record: Record, live_record: Record) -> LocalNative:
    """Read back what a sandbox is on the host."""
    facts: Any = {**made_record, **live_record}
    pid, started = facts["init"]
    return LocalNative(pid, started, path, tuple(facts["groups"]), facts["events"])


def policy_of(record: Record) -> AppliedPolicy:
    """Read back what is in force on a sandbox."""
    facts: Any = record["policy"]
    network = facts["network"]
    caps = {name: AppliedCap(**facts[name]) for name in _CAPS if facts[name] is not None}
    return AppliedPolicy(
        isolation=IsolationTier(facts["isolation"]),
        network=NetworkPolicy(
            network["egress"], tuple(network["allow"]), tuple(network["ingress_ports"])
        ),
        network_mechanism=facts["network_mechanism"],
        network_verified=facts["network_verified"],
        lifetime_s=facts["lifetime_s"],
        notes=tuple(facts["notes"]),
        **caps,
    )


def labels_of(record: Record) -> dict[str, str]:
    """Read back the caller's labels."""
    labels: Any = record["labels"]
    return {str(name): str(value) for name, value in labels.items()}


def groups_of(record: Record) -> list[str]:
    """Read back the ``cgroup.procs`` files of a sandbox's control groups."""
    groups: Any = record["groups"]
    return [str(path) for path in groups]


def managed(state: StateDirectory, record: Record) -> ManagedSandbox:
    """Return what a listing says of a sandbox."""
    facts: Any = record
    pid, started = facts["owner"]
    return ManagedSandbox(
        sandbox_id=state.id,
        backend="local",
        state="running",
        created_at=datetime.fromisoformat(facts["created_at"]),
        labels=labels_of(record),
        owner=f"pid {pid} on this host",
        owner_alive=alive(pid, started),
    )
