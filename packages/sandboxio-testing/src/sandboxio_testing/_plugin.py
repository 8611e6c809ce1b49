"""The hook by which sandboxio finds the fake backend."""

from __future__ import annotations

from sandboxio.models import BackendConfig, IsolationTier
from sandboxio.protocols import Backend
from sandboxio.spi import BackendPlugin, hookimpl

from ._config import FakeConfig

__all__ = ["sandboxio_backend"]


def _make(config: BackendConfig) -> Backend:
    from ._backend import FakeBackend

    assert isinstance(config, FakeConfig)
    return FakeBackend(
        capabilities=config.capabilities,
        isolation=config.isolation,
        resource_caps=config.resource_caps,
    )


@hookimpl
def sandboxio_backend() -> BackendPlugin:
    """Tell what this wheel brings."""
    return BackendPlugin(
        name="fake",
        summary="A simulated sandbox in memory, for tests; it runs nothing.",
        factory=_make,
        config=FakeConfig,
        isolation=IsolationTier.CONTAINER,
        isolation_evidence="It reports what a container does, so that code under test behaves as "
        "with one. It isolates nothing, because it runs nothing.",
        isolation_date="2026-11-30",
        install='uv pip install "sandboxio[testing]"',
    )
