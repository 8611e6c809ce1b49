"""``sandboxio route``: what a routing file decides for a request, and why."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..models import Capability, IsolationTier
from ..spi import CommandPlugin
from .arguments import completed_by, label, once
from .render import Style, columns, plain

if TYPE_CHECKING:
    from ..routing import RouteCandidate, RouteDecision

__all__ = ["COMMAND"]

INDENT = "  "

MARKS = {"taken": "->", "failed": "!", "standby": "", "rejected": "x"}

TIERS = tuple(tier.value for tier in IsolationTier if tier is not IsolationTier.UNKNOWN)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "labels", metavar="key=value", nargs="*", type=label, help="what the routes match on"
    )
    parser.add_argument(
        "--file", metavar="FILE", help="the routing file (default: the routing of auto://)"
    )
    needs = parser.add_argument(
        "--needs",
        metavar="CAPABILITY",
        action="append",
        default=[],
        type=_capability,
        help="a capability that the backend must have; may be repeated",
    )
    completed_by(needs, lambda: Capability.__members__)
    parser.add_argument("--isolation", choices=TIERS, help="least isolation tier")
    parser.add_argument("--region", metavar="REGION", help="where the sandbox shall be")
    parser.add_argument("--backend", metavar="NAME", help="pin this entry of the file")
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")


def _capability(text: str) -> Capability:
    found = Capability.__members__.get(text.upper())
    if found is None:
        known = ", ".join(Capability.__members__)
        raise argparse.ArgumentTypeError(f"there is no capability {text!r}; there are {known}")
    return found


def run(options: argparse.Namespace) -> int:
    """Print the decision; 1 if no backend can be taken."""
    import anyio

    from ..routing import Router, RouteRequest

    router = Router.default() if options.file is None else Router.from_file(options.file)
    request = RouteRequest(
        labels=once(options.labels),
        needs=_all(options.needs),
        require_isolation=None if options.isolation is None else IsolationTier(options.isolation),
        region=options.region,
        backend=options.backend,
    )
    decision: RouteDecision = anyio.run(router.examine, request)
    if options.json:
        print(json.dumps(decision.as_dict(), indent=2))
    else:
        print(_rendered(decision, Style.for_stream(sys.stdout)))
    chosen = decision.chosen
    return 0 if chosen is not None and chosen.error_code is None else 1


def _all(needs: Sequence[Capability]) -> Capability:
    wanted = Capability(0)
    for capability in needs:
        wanted |= capability
    return wanted


def _rendered(decision: RouteDecision, style: Style) -> str:
    """Return the same as the JSON holds, for people."""
    head = str(replace(decision, candidates=()))
    width = max((columns(plain(one.name)) for one in decision.candidates), default=0)
    shown = [_candidate(one, width, style) for one in decision.candidates]
    taken = decision.chosen
    if taken is None:
        end = "No backend can be taken."
    elif taken.error_code is not None:
        end = f"{taken.name} ({taken.backend}) would be taken, and fail with {taken.error_code}."
    else:
        end = f"Taken: {taken.name} ({taken.backend})"
    return "\n".join((style.wrapped(head, rest=INDENT), *shown, style.wrapped(end, rest=INDENT)))


def _candidate(candidate: RouteCandidate, width: int, style: Style) -> str:
    name = plain(candidate.name)
    name += " " * (width - columns(name))
    before = f"  {MARKS[candidate.outcome]:>2} {name}  {candidate.outcome:<8}  "
    if candidate.outcome == "taken":
        first = style.good(before)
    else:
        first = style.bad(before) if candidate.outcome in ("failed", "rejected") else before
    roomy = style.width is None or style.width >= 2 * columns(before)
    rest = " " * columns(before) if roomy else INDENT * 3
    return style.wrapped(candidate.reason, first=first, rest=rest)


COMMAND = CommandPlugin(
    name="route",
    summary="print which backend a routing file takes for a request, and why",
    description="Decides a request without creating anything. Every backend that comes into "
    "question is asked how it is, which is free. The exit code is 1 if no sandbox would come of it.",
    add_arguments=add_arguments,
    run=run,
    examples=(
        "sandboxio route --file sandboxio-routing.yaml tool=run_python",
        "sandboxio route --file sandboxio-routing.yaml --needs STATEFUL_CODE --region eu --json",
    ),
)
