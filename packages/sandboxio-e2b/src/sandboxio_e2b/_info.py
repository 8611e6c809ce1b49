"""What E2B says of a sandbox, as a value that needs no SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

__all__ = ["Info", "described"]


@dataclass(frozen=True)
class Info:
    """What E2B says of a sandbox."""

    id: str
    metadata: dict[str, str]
    running: bool
    started: datetime
    ends: datetime
    cpu: float
    memory_mb: float
    internet: bool | None
    allow: tuple[str, ...] | None
    deny: tuple[str, ...] | None


def described(info: Any) -> Info:
    """Return it, from the SDK's own object."""
    network: Any = info.network
    return Info(
        id=info.sandbox_id,
        metadata=dict(info.metadata),
        running=str(getattr(info.state, "value", info.state)) == "running",
        started=info.started_at,
        ends=info.end_at,
        cpu=info.cpu_count,
        memory_mb=info.memory_mb,
        internet=info.allow_internet_access,
        allow=_addresses(network, "allow_out"),
        deny=_addresses(network, "deny_out"),
    )


def _addresses(network: Any, key: str) -> tuple[str, ...] | None:
    value: object = getattr(network, key, None)
    if isinstance(network, Mapping):
        value = cast("Mapping[str, object]", network).get(key)
    if not isinstance(value, list | tuple):
        return None
    return tuple(str(item) for item in cast("Sequence[object]", value))
