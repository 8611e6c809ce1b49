"""Hold the public surface of every wheel to its snapshot, `packages/<wheel>/api.txt`.

    python3 tools/dev.py api            write the snapshots anew
    python3 tools/dev.py check api      fail, and tell breaks from additions, when they are old

A snapshot is there for the review: a change of what is promised is a line of the diff.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import workspace
from api_snapshot_compare import Change, compare, parse
from api_snapshot_read import Surfaces

HEAD: Final = (
    "# The public surface of {wheel}, one name a line: `python3 tools/dev.py api` writes it.\n\n"
)


def path_of(member: workspace.Member) -> Path:
    """Return where the snapshot of a wheel lies."""
    return member.folder / "api.txt"


def render(wheel: str, lines: list[str]) -> str:
    """Return the text of a snapshot."""
    return HEAD.format(wheel=wheel) + "".join(f"{line}\n" for line in lines)


def report(wheel: str, changes: list[Change]) -> str:
    """Return the changes of one wheel for a reader, breaks first."""
    lines = [f"{wheel}:"]
    for change in sorted(changes, key=lambda change: not change.breaking):
        lines.append(f"  {'BREAKS' if change.breaking else 'adds  '} {change.name}")
        lines.append(f"         {change.text}")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Compare or write the snapshots and return an exit code."""
    parser = argparse.ArgumentParser(prog="api", description="Write the public surface anew.")
    parser.add_argument("--check", action="store_true", help="compare only, and write nothing")
    options = parser.parse_args(argv)
    surfaces = Surfaces()
    stale = 0
    for member in workspace.members():
        path = path_of(member)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        new = render(member.name, surfaces.lines(member.name))
        if old == new:
            continue
        stale += 1
        changes = compare(parse(old), parse(new))
        print(report(member.name, changes) if old else f"{member.name}: first snapshot")
        if not options.check:
            path.write_text(new, encoding="utf-8")
    if stale and options.check:
        print(
            "The snapshots are old. `python3 tools/dev.py api` writes them; the review decides."
            " A break also needs a `removed` or `changed` news fragment, and a minor version."
        )
        return 1
    print(f"{stale} snapshots were written." if stale else "The snapshots agree with the source.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
