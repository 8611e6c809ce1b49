"""Which version comes next for a wheel, and what stands in the way of a version that somebody chose."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

import release_deprecations
import release_history
import workspace
from api_snapshot_compare import Change, compare, parse


@dataclass(frozen=True)
class Plan:
    """What a release of one wheel would be."""

    wheel: str
    version: str
    """The version in the checkout."""
    last: str | None
    """The tag of the newest release."""
    fragments: tuple[str, ...]
    """What the changelog would say, by the names of the fragments."""
    changes: tuple[Change, ...]
    """How the public surface differs from that of the newest release."""

    @property
    def breaking(self) -> bool:
        """Whether what was promised at the last release no longer holds."""
        removed = any(name.endswith(".removed.md") for name in self.fragments)
        return self.last is not None and (
            removed or any(change.breaking for change in self.changes)
        )

    @property
    def proposal(self) -> str:
        """The lowest version that the version policy admits: a patch never breaks anything."""
        now = Version(self.version)
        if self.last is None:
            return self.version  # what stands there has never been released
        if not self.breaking:
            return f"{now.major}.{now.minor}.{now.micro + 1}"
        return f"0.{now.minor + 1}.0" if now.major == 0 else f"{now.major + 1}.0.0"


def member_of(root: Path, wheel: str) -> workspace.Member:
    """Return a member of the workspace by name; raise `SystemExit`, which lists the names, otherwise."""
    members = {member.name: member for member in workspace.members(root)}
    if wheel not in members:
        raise SystemExit(f"There is no wheel {wheel}. There are: {', '.join(members)}.")
    return members[wheel]


def plan(root: Path, member: workspace.Member) -> Plan:
    """Look at what has happened to a wheel since its last release."""
    last = release_history.latest(root, member.name)
    changes: list[Change] = []
    if last is not None:
        path = f"packages/{member.name}/api.txt"
        then = release_history.text_at(root, last, path)
        changes = compare(parse(then), parse((root / path).read_text(encoding="utf-8")))
    return Plan(
        wheel=member.name,
        version=member.version,
        last=last,
        fragments=tuple(path.name for path in fragments(member)),
        changes=tuple(changes),
    )


def fragments(member: workspace.Member) -> list[Path]:
    """Return the news fragments of a wheel."""
    return sorted((member.folder / "changes").glob("*.md"))


def refusals(root: Path, member: workspace.Member, version: str) -> list[str]:
    """Return every reason why a wheel cannot be released as `version`; none means that it can."""
    try:
        new = Version(version)
    except InvalidVersion:
        return [f"{version} is no version"]
    if re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version) is None:
        return [f"{version}: versions are X.Y.Z, or X.Y.Zrc1 and the like"]
    return [
        *_out_of_order(root, member, new),
        *_too_small(plan(root, member), new),
        *_shut_out(root, member, new),
        *_late_or_early(root, member, new),
    ]


def _out_of_order(root: Path, member: workspace.Member, new: Version) -> list[str]:
    released = release_history.releases(root, member.name)
    if new in released:
        return [f"{member.name}=={new} was released already"]
    newest = max(released, default=None)
    if newest is not None and new < newest:
        return [f"{newest} was released already, which is newer than {new}"]
    if new < Version(member.version):
        return [f"{member.name} is at {member.version}, which is newer than {new}"]
    return []


def _too_small(what: Plan, new: Version) -> list[str]:
    """A version that promises more than the changes keep."""
    if not what.breaking or new >= Version(what.proposal):
        return []
    broken = [change.name for change in what.changes if change.breaking]
    named = ", ".join(broken[:5]) or "a `removed` fragment"
    return [f"what it breaks needs {what.proposal} at least, not {new}: {named}"]


def _shut_out(root: Path, member: workspace.Member, new: Version) -> list[str]:
    """Siblings whose range would not admit it, so that nobody could install both."""
    return [
        f"{other.name} asks for {line}: move its range first, in the same commit"
        for other in workspace.members(root)
        for line in other.requirements
        if (asked := Requirement(line)).name == member.name
        and not asked.specifier.contains(new, prereleases=True)
    ]


def _late_or_early(root: Path, member: workspace.Member, new: Version) -> list[str]:
    """Deprecations that outlive their end, or that ended before their time."""
    problems = release_deprecations.broken_rules(member.folder, new.base_version)
    last = release_history.latest(root, member.name)
    if last is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = f"packages/{member.name}"
            then = release_history.unpack(root, last, path, Path(folder))
            problems += release_deprecations.removed_too_early(then, member.folder, date.today())
    return problems


def described(what: Plan) -> str:
    """Return a plan for a reader."""
    if what.last is None:
        head = f"{what.wheel} {what.version}: never released"
    else:
        head = f"{what.wheel} {what.version}: last release {what.last}, next {what.proposal}"
    kinds = [name.split(".")[-2] for name in what.fragments]
    news = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    breaks = sum(change.breaking for change in what.changes)
    lines = [head, f"  news: {news or 'none'}"]
    if what.last is not None:
        lines.append(f"  surface: {breaks} breaks, {len(what.changes) - breaks} additions")
    return "\n".join(lines)
