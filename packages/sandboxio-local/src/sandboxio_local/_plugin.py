"""What this wheel tells sandboxio when it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxio.models import IsolationTier
from sandboxio.spi import BackendPlugin, hookimpl
from sandboxio_local._config import LocalConfig

if TYPE_CHECKING:
    from sandboxio.models import BackendConfig
    from sandboxio.protocols import Backend

__all__ = ["sandboxio_backend"]


@hookimpl
def sandboxio_backend() -> BackendPlugin:
    """Register the local backend."""
    return BackendPlugin(
        name="local",
        summary="Linux namespaces through bubblewrap, without a daemon",
        factory=_make,
        config=LocalConfig,
        isolation=IsolationTier.CONTAINER,
        isolation_evidence="https://github.com/containers/bubblewrap#sandbox-security",
        isolation_date="2026-11-29",
        install='uv pip install "sandboxio[local]"',
    )


def _make(config: BackendConfig) -> Backend:
    # Imported here, because a plugin that is merely listed shall load no engine.
    from sandboxio_local._backend import LocalBackend

    return LocalBackend(read_only=config.read_only if isinstance(config, LocalConfig) else None)
