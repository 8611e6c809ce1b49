"""Arguments that several commands take."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..errors import ConfigurationError

__all__ = ["label", "once"]


def label(text: str) -> tuple[str, str]:
    """Read ``key=value``."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, value


def once(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return labels as a mapping.

    Raises:
        ConfigurationError: One is given twice.
    """
    labels = dict(pairs)
    if len(labels) < len(pairs):
        raise ConfigurationError("A label is given twice.", hint="Give each key=value once.")
    return labels
