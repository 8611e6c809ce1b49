"""The public backend."""

from __future__ import annotations

from sandboxio.audit import AuditConfig
from sandboxio.spi import DriverBackend
from sandboxio_local._driver import LocalDriver

__all__ = ["LocalBackend"]


class LocalBackend(DriverBackend):
    """Sandboxes made of Linux namespaces, without a daemon and without root.

    Example:
        >>> import sandboxio
        >>> from sandboxio_local import LocalBackend
        >>> sandboxio.register("local", LocalBackend)
    """

    def __init__(
        self, *, read_only: dict[str, str] | None = None, audit: AuditConfig | None = None
    ) -> None:
        """Make a backend.

        Args:
            read_only: As in `LocalConfig`, for every sandbox that this backend makes.
            audit: Where records go.
        """
        super().__init__(LocalDriver(read_only), audit=audit)
