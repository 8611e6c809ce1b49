"""``auto://``: Docker if its daemon answers, else local."""

from __future__ import annotations

from typing import cast

from .._wiring.registry import Registry
from ..errors import NoRoute, SandboxError
from ..protocols import ReapableBackend
from .dsn import Dsn, config_from_dsn

__all__ = ["choose"]

CANDIDATES = ("docker", "local")


async def choose(dsn: Dsn, registry: Registry) -> Dsn:
    """Return the DSN of the first candidate that could create a sandbox now.

    Raises:
        NoRoute: None of them could; the message gives each one's reason.
    """
    reasons: list[str] = []
    for name in CANDIDATES:
        candidate = Dsn(name, dsn.template, dsn.parameters)
        try:
            backend = registry.configured(config_from_dsn(candidate, registry))
            health = await _healthy(backend)
        except SandboxError as error:
            reasons.append(f"{name}: {error.message} ({error.hint})")
            continue
        if health is None:
            return candidate
        reasons.append(f"{name}: {health}")
    raise NoRoute(
        "auto:// found no backend. " + " | ".join(reasons),
        hint='Install one: uv pip install "sandboxio[local]"',
    )


async def _healthy(backend: object) -> str | None:
    """Return why a backend cannot be used now, or ``None``."""
    if not hasattr(backend, "health"):
        return None
    health = await cast("ReapableBackend", backend).health()
    return None if health.ok else f"{health.detail} ({health.hint})"
