"""What is shown to people: plain ANSI on a terminal, never against ``NO_COLOR``, and no surprises.

Text from elsewhere (labels, messages of an engine, output of a sandbox) may hold escape sequences
that would drive the terminal. Whatever prints such text passes it through `plain`.
"""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from dataclasses import dataclass
from typing import TextIO

__all__ = ["Style", "columns", "plain"]

NARROWEST = 20
"""Columns that a terminal is taken to have at least."""

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

_MARK = re.compile(r"\x1b\[[0-9;]*m")


def plain(text: str) -> str:
    r"""Return text that shows what it holds and does nothing; newlines and tabs stay.

    Example:
        >>> plain("a\x1b[31mb")
        'a\\x1b[31mb'
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


@dataclass(frozen=True)
class Style:
    """What one output can show.

    Attributes:
        colour: Whether it shows colours.
        width: Columns to stay within; ``None`` where lines are not broken, such as in a pipe.
    """

    colour: bool
    width: int | None = None

    @classmethod
    def for_stream(cls, stream: TextIO) -> Style:
        """Return the style that a stream can show."""
        terminal = stream.isatty()
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        width = max(NARROWEST, shutil.get_terminal_size().columns) if terminal else None
        return cls(colour=wanted and terminal, width=width)

    def good(self, text: str) -> str:
        """Mark success."""
        return self._marked(text, "32")

    def bad(self, text: str) -> str:
        """Mark failure."""
        return self._marked(text, "31")

    def warn(self, text: str) -> str:
        """Mark what is worth a look."""
        return self._marked(text, "33")

    def strong(self, text: str) -> str:
        """Mark a heading."""
        return self._marked(text, "1")

    def faint(self, text: str) -> str:
        """Mark what matters least."""
        return self._marked(text, "2")

    def _marked(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text

    def wrapped(self, text: str, *, first: str = "", rest: str = "") -> str:
        """Break text into lines of the width; `plain` is applied to it.

        A long word, such as a path or a command, is not broken: it is there to be copied.

        Args:
            text: What is broken.
            first: What the first line begins with; it may hold marks, which take no columns.
            rest: What the other lines begin with.
        """
        words = plain(text).split()
        if self.width is None:
            return first + " ".join(words)
        lines = [first]
        used, empty = columns(first), True
        for word in words:
            if not empty and used + 1 + columns(word) > self.width:
                lines.append(rest)
                used, empty = columns(rest), True
            lines[-1] += word if empty else f" {word}"
            used += columns(word) + (0 if empty else 1)
            empty = False
        return "\n".join(line.rstrip() for line in lines)


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    shown = _MARK.sub("", text)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in shown)
