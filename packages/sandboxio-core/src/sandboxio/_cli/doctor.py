"""``sandboxio doctor``: what is installed, what can be reached, and how to repair what cannot."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..spi import Check, CommandPlugin
from .arguments import backend_names, completed_by, seconds
from .render import Style, plain

if TYPE_CHECKING:
    from .._api.doctor_report import BackendReport, DoctorReport, RoutingReport

__all__ = ["COMMAND"]

INDENT = "  "

NAME_WIDTH = 17
"""Columns for what was looked at, where there is room for that beside what was found."""

ROOMY = 72
"""Columns from which on there is."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    backends = parser.add_argument(
        "backends", metavar="backend", nargs="*", help="look at these backends alone"
    )
    completed_by(backends, backend_names)
    parser.add_argument(
        "--routing", metavar="FILE", help="look at the entries of this routing file, too"
    )
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=seconds,
        help="seconds that all backends together have (default: 1.9)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(options: argparse.Namespace) -> int:
    """Print the report; 1 if an installed backend has a failing check."""
    from .._api.doctor import DOCTOR_BOUND, doctor

    report = doctor(
        options.backends or None,
        routing=options.routing,
        timeout=options.timeout or DOCTOR_BOUND,
    )
    if options.json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        print("\n".join(_lines(report, Style.for_stream(sys.stdout))))
    return 0 if report.ok else 1


def _lines(report: DoctorReport, style: Style) -> Iterator[str]:
    """Yield the same as the JSON holds, for people."""
    yield style.wrapped(", ".join(f"{name} {version}" for name, version in report.versions))
    for backend in report.backends:
        yield ""
        yield from _of_backend(backend, style)
    if report.routing is not None:
        yield ""
        yield from _of_routing(report.routing, style)
    yield ""
    yield style.wrapped(_end(report))


def _of_backend(backend: BackendReport, style: Style) -> Iterator[str]:
    name = style.strong(plain(backend.name))
    if not backend.installed:
        yield style.wrapped("not installed", first=f"{name}  ")
        if backend.install:
            yield style.wrapped(backend.install, first=f"{INDENT}Install: ", rest=INDENT * 3)
        return
    state = style.good("ok") if backend.ok else style.bad("FAILED")
    versions = ", ".join(f"{wheel} {version}" for wheel, version in backend.versions)
    yield style.wrapped(versions, first=f"{name}  {state}  ", rest=INDENT)
    if backend.summary:
        yield style.wrapped(backend.summary, first=INDENT, rest=INDENT)
    yield from _of_isolation(backend, style)
    for variable, is_set in backend.credentials:
        if is_set:  # one that is not is a check that failed
            yield from _of_check(Check.passed("credential", f"{variable} is set"), style)
    for check in backend.checks:
        yield from _of_check(check, style)


def _of_isolation(backend: BackendReport, style: Style) -> Iterator[str]:
    if backend.isolation is None:
        return
    tier = backend.isolation.value
    if not backend.isolation_evidence:
        yield from _of_check(Check.note("isolation", f"{tier}; there is no evidence for it"), style)
        return
    read = f", read on {backend.isolation_date}" if backend.isolation_date else ""
    text = f"{tier}; evidence: {backend.isolation_evidence}{read}"
    yield from _of_check(Check.passed("isolation", text), style)


def _of_routing(routing: RoutingReport, style: Style) -> Iterator[str]:
    state = style.good("ok") if routing.ok else style.bad("FAILED")
    taken = f"takes {routing.taken}" if routing.taken else "takes none"
    name = style.strong("routing")
    yield style.wrapped(f"{routing.source}, {taken}", first=f"{name}  {state}  ", rest=INDENT)
    for check in routing.checks:
        yield from _of_check(check, style)


def _of_check(check: Check, style: Style) -> Iterator[str]:
    mark = {
        "ok": style.good("ok  "),
        "note": style.warn("note"),
        "failed": style.bad("FAIL"),
    }[check.status]
    name = plain(check.name)
    roomy = style.width is None or style.width >= ROOMY
    rest = INDENT + " " * (6 + NAME_WIDTH) if roomy else INDENT * 2
    first = f"{INDENT}{mark}  {name:<{NAME_WIDTH}}" if roomy else f"{INDENT}{mark}  {name}: "
    yield style.wrapped(check.detail, first=first, rest=rest)
    if check.hint is not None:
        word = "Fix: " if check.status == "failed" else "Hint: "
        yield style.wrapped(check.hint, first=f"{rest}{style.strong(word)}", rest=rest + INDENT)


def _end(report: DoctorReport) -> str:
    failed = [one.name for one in report.backends if one.installed and not one.ok]
    if report.routing is not None and not report.routing.ok:
        failed.append("routing")
    usable = [one.name for one in report.backends if one.installed and one.ok]
    return f"Usable: {_names(usable)}. Failed: {_names(failed)}."


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


COMMAND = CommandPlugin(
    name="doctor",
    summary="show what is installed and reachable, and how to repair what is not",
    description="Looks at every backend at once, creates nothing, and makes no call that costs "
    "money. Credentials are named, never shown. It ends within three seconds, also when a daemon "
    "hangs, unless --timeout gives it longer. The exit code is 1 if a check of an installed backend fails.",
    add_arguments=add_arguments,
    run=run,
    examples=(
        "sandboxio doctor",
        "sandboxio doctor docker",
        "sandboxio doctor --routing sandboxio-routing.yaml",
        "sandboxio doctor --json",
    ),
)
