"""Asking a router how its entries are."""

from __future__ import annotations

import os

from ..routing import EntryStatus, Router, RouteRequest
from ..spi import Check
from .doctor_report import RoutingReport
from .examination import Examination

__all__ = ["RouterExamination"]


class RouterExamination(Examination):
    """Looks at a router, or loads the one of a file first."""

    def __init__(self, routing: Router | str | os.PathLike[str]) -> None:
        super().__init__("routing")
        self._routing = routing
        source = repr(routing) if isinstance(routing, Router) else os.fspath(routing)
        self._report = RoutingReport(source=source)

    def report(self) -> RoutingReport:
        """Return what was found until now."""
        entries = self._report.entries
        return RoutingReport(
            source=self._report.source,
            entries=entries,
            taken=self._report.taken,
            checks=(*(check_of(entry) for entry in entries), *self.checks),
        )

    async def look(self) -> None:
        """Ask the entries that a request without labels could be given to."""
        routing = self._routing
        router = routing if isinstance(routing, Router) else Router.from_file(os.fspath(routing))
        self._note(router, None)
        decision = await router.examine(RouteRequest())
        self._note(router, decision.taken)

    def _note(self, router: Router, taken: str | None) -> None:
        self._report = RoutingReport(
            source=self._report.source, entries=router.status(), taken=taken
        )


def check_of(entry: EntryStatus) -> Check:
    """Return what is to be said of one entry."""
    name = entry.name
    if not entry.enabled:
        return Check.note(name, f"{entry.backend}, disabled in the routing file")
    if entry.problem is not None:
        fix = f"Repair that, or say enabled: false for {name!r} in the routing file."
        return Check.failed(name, f"{entry.backend}: {entry.problem}", fix)
    circuit = f"{entry.backend}, circuit {entry.circuit}"
    if entry.circuit != "closed":
        left = "" if entry.opens_in is None else f" for another {entry.opens_in:.1f} s"
        detail = f"{circuit}{left} after {entry.failures} failures; the last: {entry.last_failure}"
        if entry.circuit == "half-open":
            return Check.note(name, detail)
        return Check.failed(name, detail, "Repair what the last failure names, and wait.")
    if entry.health is None:
        return Check.passed(name, circuit)
    if entry.health.ok:
        return Check.passed(name, f"{circuit}; {entry.health.detail}")
    hint = entry.health.hint or f"Run: sandboxio doctor {entry.backend}"
    return Check.failed(name, f"{circuit}; {entry.health.detail}", hint)
