"""Write docs/reference/contract.md from the clauses of sandboxio-testing; a test compares the two.

python3 tools/dev.py setup && .venv/bin/python tools/gen_clauses.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from sandboxio_testing.clauses import AREAS, CLAUSES, Level

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "contract.md"

HEAD: Final = """\
# The contract

What sandboxio promises of every backend. Each promise is a *clause*; the contract suite in `sandboxio-testing` has a
test for each, and [how to write an adapter](../how-to/write-an-adapter.md) tells how to run it against a backend of
your own. Where this page and the suite disagree, the suite is right.

There are {count} clauses, {musts} of them **MUST**: a backend that breaks one of these does not conform. A **SHOULD** may
be broken for a reason, which then stands in the `known_gaps` of the backend's test class. A new MUST comes with a minor
version, and is a SHOULD in the one before.

This page is made from `sandboxio_testing.clauses` by `tools/gen_clauses.py`.
"""


def page() -> str:
    """Return the page."""
    musts = sum(clause.level is Level.MUST for clause in CLAUSES.values())
    parts = [HEAD.format(count=len(CLAUSES), musts=musts)]
    for area, title in AREAS.items():
        mine = [clause for clause in CLAUSES.values() if clause.area == area]
        rows = [
            f"| `{clause.id}` | {clause.level.value} | {clause.since} | {clause.text} |"
            for clause in mine
        ]
        parts.append(
            "\n".join(
                [
                    f"## {area}",
                    "",
                    f"{title}.",
                    "",
                    "| Clause | | Since | Promise |",
                    "|---|---|---|---|",
                    *rows,
                    "",
                ]
            )
        )
    return "\n".join(parts)


def main() -> int:
    """Write the page."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {len(CLAUSES)} clauses")
    return 0


if __name__ == "__main__":
    sys.exit(main())
