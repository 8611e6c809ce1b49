"""What this wheel tells sandboxio. It is loaded to be listed, so it loads nothing of the provider."""

from __future__ import annotations

from sandboxio.models import BackendConfig, IsolationTier
from sandboxio.protocols import Backend
from sandboxio.spi import BackendPlugin, hookimpl

from ._config import TemplateConfig

__all__ = ["sandboxio_backend"]


@hookimpl
def sandboxio_backend() -> BackendPlugin:
    """Register the backend."""
    return BackendPlugin(
        name="template",
        summary="the template of the adapter guide, on bubblewrap",
        factory=_make,
        config=TemplateConfig,
        # Nobody has examined this adapter, so it claims no tier. `require_isolation` refuses it.
        isolation=IsolationTier.UNKNOWN,
        install="pip install sandboxio-template",
    )


def _make(config: BackendConfig) -> Backend:
    from ._backend import TemplateBackend

    return TemplateBackend()
