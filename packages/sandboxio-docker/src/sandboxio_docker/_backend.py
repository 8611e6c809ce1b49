"""The public Docker backend."""

from __future__ import annotations

from typing import Literal, cast

from sandboxio.audit import AuditConfig
from sandboxio.errors import ConfigurationError
from sandboxio.spi import DriverBackend

from ._config import DEFAULT_IMAGE, DockerConfig
from ._driver import DockerDriver

__all__ = ["DockerBackend"]

MAX_PULL = 24 * 3600.0
"""Seconds; a pull that takes a day will not end."""


class DockerBackend(DriverBackend):
    """Containers of a Docker Engine, one per sandbox.

    Args:
        image: Image of sandboxes that name none.
        runtime: OCI runtime, for example ``"runsc"``; the engine's default if ``None``.
        pull: When an image is pulled: ``"missing"``, ``"always"`` or ``"never"``.
        pull_timeout: Seconds that a pull may take, besides the timeout of the sandbox.
        platform: Platform of the image; the engine's own if ``None``.
        guest: ``"auto"``, or ``"never"`` for images without Python; see `DockerConfig`.
        host: Address of the engine; found as the Docker CLI finds it if ``None``.
        audit: Where records go.

    Example:
        >>> import sandboxio
        >>> from sandboxio_docker import DockerBackend
        >>> sandboxio.register("docker", lambda: DockerBackend(image="agent-runtime:1"))
    """

    def __init__(
        self,
        *,
        image: str = DEFAULT_IMAGE,
        runtime: str | None = None,
        pull: Literal["missing", "always", "never"] = "missing",
        pull_timeout: float = 600,
        platform: str | None = None,
        guest: Literal["auto", "never"] = "auto",
        host: str | None = None,
        audit: AuditConfig | None = None,
    ) -> None:
        config = DockerConfig(
            template=image,
            runtime=runtime,
            pull=pull,
            pull_timeout=pull_timeout,
            platform=platform,
            guest=guest,
            host=host,
        )
        _check(config)
        super().__init__(DockerDriver(config), audit=audit)

    @classmethod
    def from_config(cls, config: DockerConfig) -> DockerBackend:
        """Make a backend with the options of a configuration; the rest of it is for `create`."""
        return cls(
            runtime=config.runtime,
            pull=config.pull,
            pull_timeout=config.pull_timeout,
            platform=config.platform,
            guest=config.guest,
            host=config.host,
        )


def _check(config: DockerConfig) -> None:
    if config.pull not in ("missing", "always", "never"):
        raise ConfigurationError(
            f"pull is {config.pull!r}.", hint="It is 'missing', 'always' or 'never'."
        )
    if config.guest not in ("auto", "never"):
        raise ConfigurationError(f"guest is {config.guest!r}.", hint="It is 'auto' or 'never'.")
    for name in ("template", "runtime", "platform", "host"):
        value: object = getattr(config, name)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise ConfigurationError(f"{name} must be a str that is not empty, or None.")
    bound = cast("object", config.pull_timeout)
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not 0 < bound <= MAX_PULL:
        raise ConfigurationError(
            f"pull_timeout must be above 0 and at most {MAX_PULL:.0f} seconds, not {bound!r}."
        )
