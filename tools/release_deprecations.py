"""Find what is deprecated in a wheel, and say where the rules of the version policy are not kept.

A deprecation warns at run time and in the type checker, names its replacement in a changelog, and lives
for at least one minor release and 90 days. What removes it is a release that may break something.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

WINDOW: Final = timedelta(days=90)
"""How long a deprecation lives at least, from the release that announced it."""

WORDING: Final = re.compile(
    r"`(?P<what>[^`]+)` is deprecated since (?P<since>\d+\.\d+\.\d+)"
    r" and goes in (?P<removal>\d+\.\d+\.\d+): use `(?P<use>[^`]+)`\."
)
"""The text that `sandboxio._deprecation` explains, in which a decorator is written too."""

RELEASE: Final = r"^## {version} \((\d{{4}}-\d\d-\d\d)\)"
"""The heading of a release in a changelog, as towncrier writes it."""


@dataclass(frozen=True)
class Deprecation:
    """One thing that a wheel still has, and will not have."""

    where: str
    """File and line."""
    what: str
    since: str
    removal: str


def version(text: str) -> tuple[int, ...]:
    """Return `1.2.3` as numbers to compare."""
    return tuple(int(part) for part in text.split("."))


def find(folder: Path) -> tuple[list[Deprecation], list[str]]:
    """Return the deprecations in the source of the wheel at `folder`, and what is wrong in their text."""
    found: list[Deprecation] = []
    problems: list[str] = []
    for path in sorted(folder.glob("src/**/*.py")):
        for node in _calls(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.relative_to(folder)}:{node.lineno}"
            fields = _notice(node) if _name(node) == "Notice" else _literal(node)
            if fields is None:
                problems.append(
                    f"{where}: not a literal `<what>` is deprecated since <version> and goes in"
                    " <version>: use `<use>`."
                )
            else:
                found.append(Deprecation(where, *fields))
    return found, problems


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node) in {"deprecated", "Notice"}:
            yield node


def _name(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def _literal(node: ast.Call) -> tuple[str, str, str] | None:
    """Return what a decorator says; `None` if it is no literal of the one wording."""
    text = node.args[0] if node.args else None
    if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
        return None
    match = WORDING.fullmatch(text.value)
    return (match["what"], match["since"], match["removal"]) if match else None


def _notice(node: ast.Call) -> tuple[str, str, str] | None:
    """Return what a `Notice` says; `None` if it is not made of literals."""
    said = {
        word.arg: word.value.value
        for word in node.keywords
        if isinstance(word.value, ast.Constant) and isinstance(word.value.value, str)
    }
    if not {"what", "since", "removal", "use"} <= said.keys():
        return None
    return said["what"], said["since"], said["removal"]


def broken_rules(folder: Path, now: str) -> list[str]:
    """Return what is wrong with the deprecations of the wheel at `folder`, at its version `now`."""
    found, problems = find(folder)
    for entry in found:
        since, removal = version(entry.since), version(entry.removal)
        if removal <= version(now):
            problems.append(f"{entry.where}: {now} has to do without `{entry.what}`")
        if removal[-1] != 0 or (removal[0] > 0 and removal[1] != 0):
            problems.append(f"{entry.where}: {entry.removal} is no release that may break anything")
        if removal[:2] <= since[:2]:
            problems.append(f"{entry.where}: there is no minor release between the two versions")
        if not _is_told(folder, entry.what):
            problems.append(f"{entry.where}: no changelog tells that `{entry.what}` is deprecated")
    return problems


def removed_too_early(before: Path, after: Path, today: date) -> list[str]:
    """Return what the wheel had deprecated at `before`, has no more at `after`, and dropped too early."""
    kept = {entry.what for entry in find(after)[0]}
    problems: list[str] = []
    for entry in find(before)[0]:
        released = _released(after, entry.since)
        if entry.what in kept or released is None:
            continue
        earliest = released + WINDOW
        if today < earliest:
            problems.append(
                f"`{entry.what}` was deprecated on {released}: it has to stay until {earliest}"
            )
    return problems


def _is_told(folder: Path, what: str) -> bool:
    """Return whether the changelog, or a fragment for it, tells of a deprecation."""
    fragments = [path.read_text("utf-8") for path in folder.glob("changes/*.deprecated.md")]
    changelog = folder / "CHANGELOG.md"
    sections = changelog.read_text("utf-8").split("\n### ") if changelog.exists() else []
    told = fragments + [text for text in sections if text.startswith("Deprecated")]
    return any(f"`{what}`" in text for text in told)


def _released(folder: Path, release: str) -> date | None:
    """Return the day of a release, by the changelog."""
    text = (folder / "CHANGELOG.md").read_text(encoding="utf-8")
    match = re.search(RELEASE.format(version=re.escape(release)), text, re.MULTILINE)
    return date.fromisoformat(match[1]) if match else None
