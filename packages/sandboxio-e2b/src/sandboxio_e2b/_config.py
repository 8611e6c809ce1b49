"""The typed configuration of this backend."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxio.models import BackendConfig

__all__ = ["E2BConfig"]


@dataclass(frozen=True, kw_only=True)
class E2BConfig(BackendConfig):
    """Configuration of one sandbox on E2B.

    ``template`` is the name or the id of an E2B template; E2B's ``code-interpreter-v1`` if
    ``None``. CPU, memory and disk belong to the template, so ``resources`` must stay empty.

    Attributes:
        domain: Domain of the E2B deployment; ``E2B_DOMAIN``, or E2B's cloud, if ``None``.

    Example:
        >>> from sandboxio_e2b import E2BConfig
        >>> E2BConfig(template="my-team-template").backend
        'e2b'
    """

    domain: str | None = None

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return "e2b"
