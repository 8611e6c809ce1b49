"""What this wheel tells sandboxio when it is installed; loads no SDK."""

from __future__ import annotations

from sandboxio.models import BackendConfig, IsolationTier
from sandboxio.protocols import Backend
from sandboxio.spi import BackendPlugin, hookimpl
from sandboxio_e2b._config import E2BConfig

__all__ = ["sandboxio_backend"]


@hookimpl
def sandboxio_backend() -> BackendPlugin:
    """Register the E2B backend."""
    return BackendPlugin(
        name="e2b",
        summary="A Firecracker microVM on E2B's cloud for each sandbox",
        factory=_make,
        config=E2BConfig,
        isolation=IsolationTier.MICROVM,
        # "Each sandbox is powered by Firecracker, a microVM", and the orchestrator's source.
        isolation_evidence="https://github.com/e2b-dev/infra (packages/orchestrator, Firecracker)",
        isolation_date="2026-11-29",
        credentials=("E2B_API_KEY",),
        install='uv pip install "sandboxio[e2b]"',
    )


def _make(config: BackendConfig) -> Backend:
    from sandboxio_e2b._backend import E2BBackend

    assert isinstance(config, E2BConfig)
    return E2BBackend(domain=config.domain)
