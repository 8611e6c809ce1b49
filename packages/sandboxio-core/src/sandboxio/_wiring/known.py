"""What is known before it is installed: data for messages, nothing else."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["INSTALL_HINTS", "KNOWN_COMMANDS"]

INSTALL_HINTS: Mapping[str, str] = {
    "docker": 'uv pip install "sandboxio[docker]"',
    "e2b": 'uv pip install "sandboxio[e2b]"',
    "fake": 'uv pip install "sandboxio[testing]"',
    "local": 'uv pip install "sandboxio[local]"',
}
"""Backends, with the command that installs each."""

KNOWN_COMMANDS: Mapping[str, tuple[str, str]] = {
    "mcp": ("serve sandboxes to a model over MCP", 'uv pip install "sandboxio[mcp]"'),
}
"""Commands of other wheels: one line about each, and the command that installs it."""
