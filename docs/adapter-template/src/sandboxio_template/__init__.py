"""A backend for sandboxio, small enough to be read in one go."""

from __future__ import annotations

from ._backend import TemplateBackend
from ._config import TemplateConfig

__all__ = ["TemplateBackend", "TemplateConfig"]
