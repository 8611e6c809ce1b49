"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence

from ..errors import ConfigurationError

__all__ = ["backend_names", "completed_by", "label", "once", "seconds", "targets"]


def label(text: str) -> tuple[str, str]:
    """Read ``key=value``."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, value


def seconds(text: str) -> float:
    """Read a number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def once(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return labels as a mapping.

    Raises:
        ConfigurationError: One is given twice.
    """
    labels = dict(pairs)
    if len(labels) < len(pairs):
        raise ConfigurationError("A label is given twice.", hint="Give each key=value once.")
    return labels


def completed_by(action: argparse.Action, names: Callable[[], Iterable[str]]) -> None:
    """Let the shell complete the values of an argument, where argcomplete is installed."""

    def complete(**_context: object) -> list[str]:
        return list(names())

    # That is where argcomplete looks for it.
    action.completer = complete  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def backend_names() -> list[str]:
    """Return the names of all backends, installed or known, without loading one."""
    from .._wiring.known import INSTALL_HINTS
    from .._wiring.registry import default_registry

    return sorted({*INSTALL_HINTS, *default_registry().names()})


def targets() -> list[str]:
    """Return a DSN for each backend."""
    return ["auto://", *(f"{name}://" for name in backend_names())]
