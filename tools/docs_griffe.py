"""What griffe is told of our docstrings, which are written for `help()` first."""

from __future__ import annotations

import re

import griffe


class Docstrings(griffe.Extension):
    """Reads ``Example:`` as a section of examples, and ``::`` as what it is in plain text."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of each object that was loaded."""
        if obj.docstring is None:
            return
        text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
        obj.docstring.value = re.sub(r"^::\n\n", "", text, flags=re.MULTILINE)
