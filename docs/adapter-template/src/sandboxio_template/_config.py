"""The typed configuration."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxio.models import BackendConfig

__all__ = ["TemplateConfig"]


@dataclass(frozen=True, kw_only=True)
class TemplateConfig(BackendConfig):
    """Configuration of one sandbox. Options of your provider become fields here."""

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return "template"
