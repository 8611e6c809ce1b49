"""The public backend: the driver, under sandboxio's engine."""

from __future__ import annotations

from sandboxio.audit import AuditConfig
from sandboxio.spi import DriverBackend

from ._driver import TemplateDriver

__all__ = ["TemplateBackend"]


class TemplateBackend(DriverBackend):
    """Sandboxes of bubblewrap, of a tier that nobody has verified.

    Example:
        >>> import sandboxio
        >>> async def main() -> str:
        ...     async with await sandboxio.create("template://") as sandbox:
        ...         return (await sandbox.run(["echo", "hello"])).stdout
    """

    def __init__(self, *, audit: AuditConfig | None = None) -> None:
        super().__init__(TemplateDriver(), audit=audit)
