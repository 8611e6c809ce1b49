"""Colour: plain ANSI, only on a terminal, and never against ``NO_COLOR``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO

__all__ = ["Style"]


@dataclass(frozen=True)
class Style:
    """How to mark good and bad on one output."""

    colour: bool

    @classmethod
    def for_stream(cls, stream: TextIO) -> Style:
        """Return the style that a stream can show."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(colour=wanted and stream.isatty())

    def good(self, text: str) -> str:
        """Mark success."""
        return f"\x1b[32m{text}\x1b[0m" if self.colour else text

    def bad(self, text: str) -> str:
        """Mark failure."""
        return f"\x1b[31m{text}\x1b[0m" if self.colour else text
