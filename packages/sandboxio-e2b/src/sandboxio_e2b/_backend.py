"""The public backend."""

from __future__ import annotations

from sandboxio.audit import AuditConfig
from sandboxio.spi import DriverBackend
from sandboxio_e2b._driver import E2BDriver

__all__ = ["E2BBackend"]


class E2BBackend(DriverBackend):
    """Sandboxes on E2B. Making one does no I/O, and needs no key yet.

    Args:
        domain: As in `E2BConfig`.
        audit: Where records go.

    Example:
        >>> import sandboxio
        >>> from sandboxio_e2b import E2BBackend
        >>> sandboxio.register("e2b", E2BBackend)
    """

    def __init__(self, *, domain: str | None = None, audit: AuditConfig | None = None) -> None:
        super().__init__(E2BDriver(domain), audit=audit)
