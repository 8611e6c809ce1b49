"""The conformance table: which clause a backend kept, and on what evidence."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Literal

from .clauses import CLAUSES, Level

__all__ = ["ConformanceReport", "Outcome", "TestOutcome", "write_report"]

Outcome = Literal["passed", "failed", "skipped", "known gap", "not run"]

_WORST_FIRST: tuple[Outcome, ...] = ("failed", "known gap", "passed", "skipped")


@dataclass(frozen=True)
class TestOutcome:
    """What became of one test, on one event loop.

    Attributes:
        clause: The clause that it proves.
        test: Its name, parameters included.
        outcome: One of `Outcome`.
        reason: Why it failed, was skipped or is a known gap.
    """

    __test__ = False

    clause: str
    test: str
    outcome: Outcome
    reason: str = ""


@dataclass
class ConformanceReport:
    """The outcomes of one class of the suite, that is of one backend.

    Attributes:
        subject: Node id of the class.
        backend: Name of the backend, or ``""`` if it could not be made.
        outcomes: What the tests came to.

    Example:
        >>> from sandboxio_testing.report import ConformanceReport
        >>> ConformanceReport("test_mine.py::TestMine", "mine").conforms
        False
    """

    subject: str
    backend: str = ""
    outcomes: list[TestOutcome] = field(default_factory=list[TestOutcome])

    def outcome(self, clause: str) -> Outcome:
        """Return what became of a clause: the worst of its tests, and skipped only if all were."""
        seen = {item.outcome for item in self.outcomes if item.clause == clause}
        for outcome in _WORST_FIRST:
            if outcome in seen:
                return outcome
        return "not run"

    @property
    def conforms(self) -> bool:
        """Whether every MUST clause was run, and none of them failed or is a known gap."""
        musts = (clause for clause in CLAUSES.values() if clause.level is Level.MUST)
        return all(self.outcome(clause.id) in ("passed", "skipped") for clause in musts)

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "subject": self.subject,
            "backend": self.backend,
            "conforms": self.conforms,
            "clauses": {clause: self._clause(clause) for clause in CLAUSES},
        }

    def _clause(self, clause: str) -> dict[str, object]:
        mine = [item for item in self.outcomes if item.clause == clause]
        return {
            "level": CLAUSES[clause].level.value,
            "outcome": self.outcome(clause),
            "reasons": sorted({item.reason for item in mine if item.reason}),
            "tests": {item.test: item.outcome for item in mine},
        }


def write_report(path: Path, reports: Iterable[ConformanceReport]) -> None:
    """Write the table of several backends as JSON."""
    document = {
        "suite": metadata.version("sandboxio-testing"),
        "backends": [report.as_dict() for report in reports],
    }
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
