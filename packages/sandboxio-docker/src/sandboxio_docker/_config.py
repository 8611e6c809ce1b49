"""Typed configuration of the Docker backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sandboxio.models import BackendConfig

__all__ = ["DEFAULT_IMAGE", "DockerConfig"]

DEFAULT_IMAGE = "python:3.12-slim"


@dataclass(frozen=True, kw_only=True)
class DockerConfig(BackendConfig):
    """What a Docker sandbox is made of; ``template`` is the image.

    Attributes:
        runtime: OCI runtime of the engine, for example ``"runsc"``; the engine's default if
            ``None``. It decides the isolation tier.
        pull: When an image is pulled: ``"missing"`` (if the engine does not have it), ``"always"``
            or ``"never"``.
        pull_timeout: Seconds that a pull may take; not taken out of ``timeout``.
        platform: Platform to pull and run, such as ``"linux/arm64"``; the engine's own if ``None``.
        guest: ``"auto"`` runs sandboxio's guest in images that have Python, and makes an exec of
            every call in others; ``"never"`` does so in all. Then there is no ``run_code()``.
        host: Address of the engine; found as the Docker CLI finds it if ``None``.

    Example:
        >>> from sandboxio_docker import DockerConfig
        >>> DockerConfig(template="python:3.12-slim", runtime="runsc").backend
        'docker'
    """

    runtime: str | None = None
    pull: Literal["missing", "always", "never"] = "missing"
    pull_timeout: float = 600
    platform: str | None = None
    guest: Literal["auto", "never"] = "auto"
    host: str | None = None

    @property
    def backend(self) -> str:
        """``"docker"``."""
        return "docker"
