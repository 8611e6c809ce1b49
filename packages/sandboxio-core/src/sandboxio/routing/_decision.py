"""What a router decided, and why: values for people, records and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..models import Capability, IsolationTier
from ._request import NOTHING

__all__ = ["Outcome", "RouteCandidate", "RouteDecision"]

Outcome = Literal["taken", "failed", "standby", "rejected"]

_MARKS = {"taken": "->", "failed": "!", "standby": " ", "rejected": "x"}


@dataclass(frozen=True)
class RouteCandidate:
    """One entry of the routing file, as it was judged for one request.

    Attributes:
        name: Name of the entry.
        backend: Its adapter.
        outcome: ``"taken"``; ``"failed"``: its create was tried before, and failed in a way that
            lets the next be tried; ``"standby"``: it would have been next; ``"rejected"``: it does
            not satisfy the request, or cannot work now.
        reason: Why, in one sentence.
        rank: Position among those that satisfy the request, from 1; ``None`` for the others.
        isolation: Its tier, if known.
        error_code: Code of the error that creating there is known to raise, such as that of a
            credential that is missing; such a candidate keeps its rank, so that this is heard of.

    Example:
        >>> from sandboxio.routing import RouteCandidate
        >>> RouteCandidate("a", "local", "taken", "bubblewrap 0.11.0", rank=1).outcome
        'taken'
    """

    name: str
    backend: str
    outcome: Outcome
    reason: str
    rank: int | None = None
    isolation: IsolationTier | None = None
    error_code: str | None = None

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON-like values."""
        return {
            "name": self.name,
            "backend": self.backend,
            "outcome": self.outcome,
            "reason": self.reason,
            "rank": self.rank,
            "isolation": None if self.isolation is None else self.isolation.value,
            "error_code": self.error_code,
        }


@dataclass(frozen=True, kw_only=True)
class RouteDecision:
    """Every candidate for one request, taken or not, with the reason.

    It is on the sandbox (``sandbox.route``), in the audit event of its create, and in the
    `NoRoute` that is raised when nothing is left. ``str()`` of it is meant for people.

    Attributes:
        class_name: The isolation class that was found.
        rule: How it was found: the matching route, ``default_class``, or the pin.
        require_isolation: Least tier that was accepted; ``None`` if the request was pinned
            without one, or if no tier is known.
        needs: Capabilities that a backend had to declare.
        region: The region that was asked for.
        pinned: Whether the caller named the backend, so that routing was skipped.
        labels: What the routes were matched on.
        candidates: Best first: those that were tried, the one that is taken, those on standby, and
            then the rejected ones in the order of the file.

    Example:
        >>> from sandboxio.routing import RouteCandidate, RouteDecision
        >>> taken = RouteCandidate("a", "local", "taken", "healthy", rank=1)
        >>> RouteDecision(class_name="standard", rule="default_class", candidates=(taken,)).taken
        'a'
    """

    class_name: str | None
    rule: str
    candidates: tuple[RouteCandidate, ...]
    require_isolation: IsolationTier | None = None
    needs: Capability = NOTHING
    region: str | None = None
    pinned: bool = False
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def chosen(self) -> RouteCandidate | None:
        """The candidate that is taken."""
        return next((one for one in self.candidates if one.outcome == "taken"), None)

    @property
    def taken(self) -> str | None:
        """Name of the entry that is taken, or ``None`` if none can be."""
        return None if self.chosen is None else self.chosen.name

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON-like values, in a stable order; records and ``--json`` show these."""
        chosen = self.chosen
        return {
            "taken": self.taken,
            "backend": None if chosen is None else chosen.backend,
            "class": self.class_name,
            "rule": self.rule,
            "require_isolation": (
                None if self.require_isolation is None else self.require_isolation.value
            ),
            "needs": [flag.name for flag in self.needs],
            "region": self.region,
            "pinned": self.pinned,
            "labels": dict(self.labels),
            "candidates": [candidate.as_dict() for candidate in self.candidates],
        }

    def __str__(self) -> str:
        head = f"class {self.class_name} ({self.rule})" if self.class_name else self.rule
        if self.require_isolation is not None:
            head += f", at least {self.require_isolation.value}"
        if self.region is not None:
            head += f", region {self.region}"
        if self.needs:
            head += f", needs {' '.join(str(flag.name) for flag in self.needs)}"
        width = max((len(one.name) for one in self.candidates), default=0)
        lines = [
            f"  {_MARKS[one.outcome]:>2} {one.name:<{width}}  {one.outcome:<8}  {one.reason}"
            for one in self.candidates
        ]
        return "\n".join((head, *lines))

    def reasons(self) -> str:
        """Return every candidate's reason in one line, as messages carry them."""
        return " | ".join(f"{one.name}: {one.reason}" for one in self.candidates)
