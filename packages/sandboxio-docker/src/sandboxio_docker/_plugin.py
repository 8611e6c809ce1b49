"""What this wheel registers; loads no SDK."""

from __future__ import annotations

from sandboxio.models import BackendConfig, IsolationTier
from sandboxio.protocols import Backend
from sandboxio.spi import BackendPlugin, DsnParameter, hookimpl

from ._config import DockerConfig

__all__ = ["sandboxio_backend"]


@hookimpl
def sandboxio_backend() -> BackendPlugin:
    """Return the Docker backend."""
    return BackendPlugin(
        name="docker",
        summary="A container of a Docker Engine for each sandbox.",
        factory=_make,
        config=DockerConfig,
        isolation=IsolationTier.CONTAINER,
        isolation_evidence="runc shares the host's kernel; other runtimes: docs/how-to/docker.md",
        isolation_date="2026-11-30",
        dsn_parameters=(
            DsnParameter(name="runtime", type=str, summary="OCI runtime of the engine."),
            DsnParameter(name="pull", type=str, summary="missing, always or never."),
            DsnParameter(name="platform", type=str, summary="Platform of the image."),
        ),
        install='uv pip install "sandboxio[docker]"',
    )


def _make(config: BackendConfig) -> Backend:
    from ._backend import DockerBackend

    assert isinstance(config, DockerConfig)
    return DockerBackend.from_config(config)
