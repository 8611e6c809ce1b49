"""Give a wheel its next version: the number, and the changelog made from the news fragments."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import workspace


def bump(root: Path, member: workspace.Member, version: str, *, today: date) -> None:
    """Write the version and turn the fragments into a section of the changelog."""
    path = member.folder / "pyproject.toml"
    before = path.read_text(encoding="utf-8")
    after, count = re.subn(r'(?m)^(version = )"[^"]+"$', rf'\g<1>"{version}"', before, count=1)
    if count != 1:
        raise SystemExit(f'{path} has no line `version = "..."`.')
    path.write_text(after, encoding="utf-8")
    subprocess.run(
        [
            *(sys.executable, "-m", "towncrier", "build", "--yes"),
            *("--config", str(root / "pyproject.toml"), "--dir", str(member.folder)),
            *("--version", version, "--date", today.isoformat()),
        ],
        cwd=member.folder,
        check=True,
        capture_output=True,
    )


def notes(member: workspace.Member, version: str) -> str | None:
    """Return what the changelog says of a version, without its heading; `None` if it is not there."""
    text = (member.folder / "CHANGELOG.md").read_text(encoding="utf-8")
    start = re.search(rf"(?m)^## {re.escape(version)} \(.*\)\n", text)
    if start is None:
        return None
    rest = text[start.end() :]
    end = re.search(r"(?m)^## ", rest)
    return rest[: end.start() if end else None].strip() + "\n"
