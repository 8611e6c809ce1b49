"""What one promise consists of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Clause", "Level", "must", "should"]


class Level(Enum):
    """How binding a clause is, in the words of RFC 2119."""

    MUST = "MUST"
    """A backend that breaks it does not conform."""
    SHOULD = "SHOULD"
    """There may be a reason to break it, which then stands in ``known_gaps``."""


@dataclass(frozen=True)
class Clause:
    """One promise that every backend makes.

    Attributes:
        id: ``area.name``; stable, so that reports and gaps can refer to it.
        text: What is promised, as one sentence.
        level: How binding it is.
        since: Version of sandboxio-testing that brought it.

    Example:
        >>> from sandboxio_testing.clauses import CLAUSES
        >>> CLAUSES["kill.idempotent"].level.value
        'MUST'
    """

    id: str
    text: str
    level: Level
    since: str

    @property
    def area(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]


def must(id: str, text: str, since: str = "0.2") -> Clause:  # noqa: A002 - it is the field's name
    """Return a clause that every backend has to keep."""
    return Clause(id, text, Level.MUST, since)


def should(id: str, text: str, since: str = "0.2") -> Clause:  # noqa: A002 - it is the field's name
    """Return a clause that a backend keeps unless it says why not."""
    return Clause(id, text, Level.SHOULD, since)
