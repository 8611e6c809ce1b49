"""Looking into a directory of this host."""

from __future__ import annotations

from pathlib import Path

__all__ = ["names_of"]


def names_of(folder: Path) -> list[str]:
    """List a directory of the host."""
    return sorted(path.name for path in folder.iterdir())
