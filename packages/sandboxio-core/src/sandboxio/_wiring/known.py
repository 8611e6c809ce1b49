"""Backends that are known before they are installed: data for error messages, nothing else."""

from __future__ import annotations

__all__ = ["INSTALL_HINTS"]

INSTALL_HINTS = {
    "docker": 'uv pip install "sandboxio[docker]"',
    "e2b": 'uv pip install "sandboxio[e2b]"',
    "fake": 'uv pip install "sandboxio[testing]"',
    "local": 'uv pip install "sandboxio[local]"',
}
