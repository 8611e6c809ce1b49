"""The messages that sandboxio can show, taken from its source, with ``…`` for what varies."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import workspace

SHORTEST: Final = 15
"""Characters of a text that may be a message."""


def messages() -> set[str]:
    """Return every text of the wheels' source, each placeholder as ``…``."""
    found: set[str] = set()
    for member in workspace.members():
        for path in (member.folder / "src").rglob("*.py") if member.package else ():
            found |= _texts(path)
    return found


def _texts(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if len(text) >= SHORTEST and "\n" not in text:
            found.add(text)
    return found
