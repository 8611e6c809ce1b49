"""What a wheel tells about the backend that it brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..models import BackendConfig, IsolationTier
from ..protocols import Backend

__all__ = ["BackendPlugin", "DsnParameter"]


@dataclass(frozen=True, kw_only=True)
class DsnParameter:
    """A query parameter that a backend accepts in its DSN; it sets the config field of that name.

    Attributes:
        name: Name in the query, and of the field.
        type: How its text is read.
        summary: One sentence.

    Example:
        >>> from sandboxio.spi import DsnParameter
        >>> DsnParameter(name="runtime", type=str, summary="OCI runtime of the engine.").name
        'runtime'
    """

    name: str
    type: type[str] | type[int] | type[float]
    summary: str


@dataclass(frozen=True, kw_only=True)
class BackendPlugin:
    """A backend as its wheel registers it; making one does no I/O and loads no vendor SDK.

    Attributes:
        name: The scheme of its DSN, equal to the entry point's name.
        summary: One line for `sandboxio doctor`.
        factory: Makes the backend for a config. Called once per distinct set of options.
        config: The typed configuration class.
        isolation: Tier of its sandboxes by default.
        isolation_evidence: Where that tier is documented.
        isolation_date: When that was read, ISO 8601.
        credentials: Environment variables that it needs.
        dsn_parameters: Besides ``timeout``.
        install: The command that installs it.

    Example:
        >>> from sandboxio.spi import hookimpl, BackendPlugin
        >>> @hookimpl
        ... def sandboxio_backend() -> BackendPlugin: ...
    """

    name: str
    summary: str
    factory: Callable[[BackendConfig], Backend]
    config: type[BackendConfig]
    isolation: IsolationTier = IsolationTier.UNKNOWN
    isolation_evidence: str = ""
    isolation_date: str = ""
    credentials: tuple[str, ...] = ()
    dsn_parameters: tuple[DsnParameter, ...] = ()
    install: str = ""
