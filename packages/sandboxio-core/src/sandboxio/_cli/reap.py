"""``sandboxio reap``: what backends still hold, and the end of what nobody owns any more."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..spi import CommandPlugin
from .arguments import backend_names, completed_by, label, once
from .render import Style, plain

if TYPE_CHECKING:
    from .reaping import Held, Listing, ReapReport, Verdict

__all__ = ["COMMAND"]

INDENT = "  "

VERDICT_WIDTH = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    backend = parser.add_argument(
        "--backend",
        metavar="NAME",
        action="append",
        default=[],
        help="only this backend; may be repeated (default: every one that is installed)",
    )
    completed_by(backend, backend_names)
    parser.add_argument(
        "--label",
        metavar="key=value",
        action="append",
        default=[],
        type=label,
        help="only sandboxes with this metadata; may be repeated",
    )
    parser.add_argument(
        "--kill", action="store_true", help="end the orphans that are listed, and nothing else"
    )
    parser.add_argument(
        "--include",
        metavar="WHICH",
        action="append",
        default=[],
        choices=("unknown", "in-use"),
        help="with --kill, also those whose owner is 'unknown' or that are 'in-use'; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(options: argparse.Namespace) -> int:
    """List, and end what is to be ended; 1 if a backend could not be listed or a kill failed."""
    import anyio

    from .reaping import reap

    if options.include and not options.kill:
        print("sandboxio reap: --include needs --kill", file=sys.stderr)
        return 2
    labels = once(options.label)
    include: frozenset[Verdict] = frozenset(
        ("orphan", *(which.replace("-", " ") for which in options.include))
    )

    async def work() -> ReapReport:
        return await reap(options.backend, labels, kill=options.kill, include=include)

    report = anyio.run(work)
    if options.json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        style = Style.for_stream(sys.stdout)
        print("\n".join((*_lines(report, style), "", *_end(report, options, style))))
    return 0 if report.ok else 1


def _lines(report: ReapReport, style: Style) -> Iterator[str]:
    """Yield the same as the JSON holds, for people."""
    for listing in report.listings:
        yield from _of_backend(listing, style)


def _of_backend(listing: Listing, style: Style) -> Iterator[str]:
    name = style.strong(plain(listing.backend))
    if listing.status != "listed":
        status = listing.status if listing.status != "failed" else "FAILED"
        shown = style.bad(status) if listing.status == "failed" else status
        detail = listing.detail if listing.status != "not installed" else ""
        yield style.wrapped(detail, first=f"{name}  {shown}  ", rest=INDENT)
        if listing.hint:
            word = "Install: " if listing.status == "not installed" else "Fix: "
            yield style.wrapped(listing.hint, first=f"{INDENT}{word}", rest=INDENT * 3)
        return
    count = len(listing.held)
    yield f"{name}  {count or 'no'} {'sandbox' if count == 1 else 'sandboxes'}"
    for held in listing.held:
        yield from _of_sandbox(held, style)


def _of_sandbox(held: Held, style: Style) -> Iterator[str]:
    sandbox = held.sandbox
    mark = {"orphan": style.warn, "in use": style.good, "unknown": style.faint}[held.verdict]
    rest = INDENT * 2
    verdict = mark(f"{held.verdict:<{VERDICT_WIDTH}}")
    outcome = "" if held.outcome is None else f"  {held.outcome}"
    yield style.wrapped(f"{sandbox.sandbox_id}{outcome}", first=f"{INDENT}{verdict} ", rest=rest)
    alive = {True: "alive", False: "dead", None: "not known whether it is alive"}
    owner = f"owner {sandbox.owner or 'unknown'} ({alive[sandbox.owner_alive]})"
    yield style.wrapped(f"{sandbox.state}, {_age(held.age_s)}, {owner}", first=rest, rest=rest)
    if sandbox.labels:
        labels = "  ".join(f"{key}={value}" for key, value in sorted(sandbox.labels.items()))
        yield style.wrapped(labels, first=rest, rest=rest)
    if held.error:
        yield style.wrapped(held.error, first=f"{rest}{style.bad('FAILED')}  ", rest=rest)


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "age unknown"
    left = int(seconds)
    parts: list[str] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2] or ["0 s"]) + " old"


def _end(report: ReapReport, options: argparse.Namespace, style: Style) -> Iterator[str]:
    held = report.held
    counts = {verdict: [one for one in held if one.verdict == verdict] for verdict in _VERDICTS}
    said = ", ".join(f"{len(found)} {verdict}" for verdict, found in counts.items() if found)
    if not options.kill:
        yield style.wrapped(f"{said or 'Nothing is left'}. This was a dry run: nothing was ended.")
        if counts["orphan"]:
            yield "To end the orphans: " + shlex.join(_again(options))
        return
    ended = sum(one.outcome in ("ended", "gone") for one in held)
    failed = sum(one.outcome == "failed" for one in held)
    left = [one for one in held if one.outcome == "left alone"]
    yield style.wrapped(f"Ended: {ended}. Failed: {failed}. Left alone: {len(left)}.")
    for verdict, flag in (("unknown", "unknown"), ("in use", "in-use")):
        if any(one.verdict == verdict for one in left):
            yield style.wrapped(f"To end what is {verdict}, too: add --include {flag}")


_VERDICTS: Sequence[Verdict] = ("orphan", "in use", "unknown")


def _again(options: argparse.Namespace) -> list[str]:
    words = ["sandboxio", "reap"]
    for name in options.backend:
        words += ["--backend", name]
    for key, value in options.label:
        words += ["--label", f"{key}={value}"]
    return [*words, "--kill"]


COMMAND = CommandPlugin(
    name="reap",
    summary="list the sandboxes that backends still hold, and end orphans",
    description="An orphan is a sandbox whose owner, the process that created it, is dead. Without "
    "--kill nothing is ended. With it, what is in use, and what has an owner that cannot be looked "
    "at from here (on another machine, or at a provider that does not tell), is left alone unless "
    "--include names it. The exit code is 1 if a backend could not be listed, or a kill failed.",
    add_arguments=add_arguments,
    run=run,
    examples=(
        "sandboxio reap",
        "sandboxio reap --backend docker --label tenant_id=acme",
        "sandboxio reap --kill",
        "sandboxio reap --backend e2b --kill --include unknown --json",
    ),
)
