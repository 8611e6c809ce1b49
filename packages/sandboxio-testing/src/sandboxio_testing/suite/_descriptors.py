"""Counting what this process holds open."""

from __future__ import annotations

from pathlib import Path

__all__ = ["open_descriptors"]


def open_descriptors() -> int:
    """Count the open descriptors of this process; 0 where they are not listed."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0
