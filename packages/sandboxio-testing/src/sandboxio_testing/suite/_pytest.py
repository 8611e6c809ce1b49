"""What the suite needs of pytest: marks, gaps, a report, and failures that explain themselves.

It only acts on classes of the suite, and loads nothing of the suite before there is one.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from ..clauses import CLAUSES
from ..report import ConformanceReport, Outcome, TestOutcome, write_report

__all__ = ["add_options", "configure"]

DOCS = "https://docs.sandboxio.dev/reference/contract/#"
"""Where each clause is explained; its area is the anchor."""

NOTE = "sandboxio_contract"
"""Attribute of a test's report that says what it means for the contract."""


def add_options(parser: pytest.Parser) -> None:
    """Add the suite's command-line options."""
    group = parser.getgroup("sandboxio")
    group.addoption(
        "--sandboxio-report",
        metavar="FILE",
        type=Path,
        help="Write which clauses of the contract each backend keeps, as JSON.",
    )
    group.addoption(
        "--sandboxio-clauses",
        metavar="IDS",
        default="",
        help="Run only these clauses of the contract: ids or patterns, with commas between.",
    )


def configure(config: pytest.Config) -> None:
    """Register the suite's marks, so that `--strict-markers` holds, and its hooks."""
    config.addinivalue_line("markers", "clause(id): the clause of the contract that this proves.")
    config.addinivalue_line("markers", "needs(capability): skipped unless it is declared.")
    config.pluginmanager.register(ContractRun(config), "sandboxio-contract")


def contract_class(item: pytest.Item) -> type[Any] | None:
    """Return the contract class that a test belongs to, if any."""
    cls: type[Any] | None = getattr(item, "cls", None)
    return cls if getattr(cls, "__sandboxio_contract__", False) else None


def clause_of(item: pytest.Item) -> str:
    """Return the id of the clause that a standard test proves, or ``""``."""
    mark = item.get_closest_marker("clause")
    return str(mark.args[0]) if mark else ""


class ContractRun:
    """The suite's part in one run of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: dict[str, ConformanceReport] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Check each contract class, mark its known gaps, and select the clauses asked for."""
        classes = {cls for item in items if (cls := contract_class(item))}
        for cls in classes:
            check_class(cls)
        for item in items:
            if (cls := contract_class(item)) and (link := gap_of(item, cls)):
                item.add_marker(pytest.mark.xfail(reason=f"known gap: {link}", strict=True))
        if patterns := [text for text in self._option("clauses").split(",") if text]:
            chosen = [item for item in items if is_chosen(item, patterns)]
            dropped = [item for item in items if not is_chosen(item, patterns)]
            self._config.hook.pytest_deselected(items=dropped)
            items[:] = chosen

    def _option(self, name: str) -> str:
        return str(self._config.getoption(f"--sandboxio-{name}") or "")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the outcome, and let a failure name its clause."""
        report = yield
        ident = clause_of(item)
        if not ident or contract_class(item) is None:
            return report
        if report.failed:
            from ._base import FAILED

            item.stash[FAILED] = True
            explain(report, item, ident)
        note(item, ident, report)
        return report

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Enter the outcome into the table of its backend."""
        if (noted := vars(report).get(NOTE)) is None:
            return
        subject, backend, ident, name, outcome, reason = noted
        table = self._reports.setdefault(subject, ConformanceReport(subject))
        table.backend = table.backend or backend
        table.outcomes.append(TestOutcome(ident, name, outcome, reason))

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        """Write the report; not in a process of pytest-xdist's, which has seen a part of the tests."""
        if (path := self._option("report")) and not hasattr(self._config, "workerinput"):
            write_report(Path(path), self._reports.values())

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say in one line for each backend how it stands."""
        for table in self._reports.values():
            seen = [table.outcome(clause) for clause in CLAUSES]
            counts = ", ".join(
                f"{seen.count(outcome)} {outcome}"
                for outcome in ("passed", "failed", "known gap", "skipped", "not run")
                if outcome in seen
            )
            terminalreporter.write_line(f"contract of {table.backend or table.subject}: {counts}")


def note(item: pytest.Item, ident: str, report: pytest.TestReport) -> None:
    """Attach to a report what the table has to say, as data: pytest-xdist sends it elsewhere."""
    if report.when != "call" and report.passed:
        return
    subject = item.nodeid.rpartition("::")[0]
    backend = getattr(getattr(item, "funcargs", {}).get("subject"), "name", "")
    name = (
        item.name if report.when == "call" or not report.failed else f"{item.name} ({report.when})"
    )
    vars(report)[NOTE] = (subject, str(backend), ident, name, *outcome_of(report))


def check_class(cls: type[Any]) -> None:
    """Raise unless a class has all standard tests and known gaps that make sense."""
    from ._guard import missing_tests

    if changed := missing_tests(cls):
        raise pytest.UsageError(
            f"{cls.__name__} overrides or deletes standard tests: {', '.join(changed)}. "
            "Put the clause into `known_gaps`, with the address of an issue."
        )
    for key, link in cls.known_gaps.items():
        if key.partition("::")[0] not in CLAUSES:
            raise pytest.UsageError(f"{cls.__name__}.known_gaps: there is no clause {key!r}.")
        if not str(link).startswith("https://"):
            raise pytest.UsageError(
                f"{cls.__name__}.known_gaps[{key!r}] must be the address of an issue, "
                f"https://..., not {link!r}."
            )


def gap_of(item: pytest.Item, cls: type[Any]) -> str | None:
    """Return the link of the known gap that covers a test, or ``None``."""
    ident = clause_of(item)
    for key, link in cls.known_gaps.items():
        clause, _, test = key.partition("::")
        if clause == ident and test in ("", item.name, item.name.partition("[")[0]):
            return str(link)
    return None


def is_chosen(item: pytest.Item, patterns: list[str]) -> bool:
    """Return whether a test is among the clauses that were asked for."""
    ident = clause_of(item)
    return bool(ident) and any(fnmatchcase(ident, pattern) for pattern in patterns)


def outcome_of(report: pytest.TestReport) -> tuple[Outcome, str]:
    """Return the outcome of a test in the words of the conformance table, and its reason."""
    gap: str | None = getattr(report, "wasxfail", None)
    if report.skipped and gap is not None:
        return "known gap", gap
    if report.skipped:
        return "skipped", skip_reason(report)
    if report.passed:
        return "passed", ""
    return "failed", first_line(report)


def skip_reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr)


def first_line(report: pytest.TestReport) -> str:
    """Return what a failure says first."""
    crash: object = getattr(report.longrepr, "reprcrash", None)
    message = str(getattr(crash, "message", "") or report.longrepr)
    return message.partition("\n")[0][:300]


def explain(report: pytest.TestReport, item: pytest.Item, ident: str) -> None:
    """Add the clause to a failure, and what to look at."""
    clause = CLAUSES[ident]
    doc = inspect.getdoc(getattr(item, "function", None)) or ""
    lines = [
        f"{clause.level.value} {clause.id}: {clause.text}",
        *(["", *doc.splitlines()] if doc else []),
        "",
        f"{DOCS}{clause.area}",
    ]
    report.sections.insert(0, ("the clause that is broken", "\n".join(lines)))
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and not crash.message.startswith("["):
        crash.message = f"[{ident}] {crash.message}"
