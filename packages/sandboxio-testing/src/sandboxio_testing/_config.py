"""Typed configuration of the fake backend."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxio.models import BackendConfig, Capability, IsolationTier

__all__ = ["MODELLED", "FakeConfig"]

MODELLED = (
    Capability.RUN_COMMAND
    | Capability.RUN_CODE
    | Capability.STATEFUL_CODE
    | Capability.STREAMING
    | Capability.FILESYSTEM
    | Capability.UPLOAD_DOWNLOAD
    | Capability.NETWORK_POLICY
    | Capability.NETWORK_ALLOWLIST
    | Capability.STDIN
)
"""Every capability that the fake models, and declares unless it is told otherwise."""


@dataclass(frozen=True, kw_only=True)
class FakeConfig(BackendConfig):
    """Configuration of a sandbox of `FakeBackend`.

    Attributes:
        capabilities: What the backend declares.
        isolation: The tier that it reports, while it isolates nothing.
        resource_caps: ``False`` for a backend whose template owns all caps.

    Example:
        >>> from sandboxio_testing import FakeConfig
        >>> FakeConfig(timeout=60).backend
        'fake'
    """

    capabilities: Capability = MODELLED
    isolation: IsolationTier = IsolationTier.CONTAINER
    resource_caps: bool = True

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return "fake"
