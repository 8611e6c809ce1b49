"""Release one wheel: what comes next, its version and changelog, its files, and the rehearsal of it all.

    python3 tools/release.py plan [wheel]             what a release would be
    python3 tools/release.py bump WHEEL VERSION       version and changelog, if nothing stands in the way
    python3 tools/release.py build WHEEL [--out DIR]  twice the same bytes, checksums, bill of materials
    python3 tools/release.py ready TAG                whether the tree is what the tag says
    python3 tools/release.py notes TAG                the section of the changelog
    python3 tools/release.py floors WHEEL|all         the unit tests on the oldest versions it admits
    python3 tools/release.py downstream [wheel]       the tests of released wheels, on this core
    python3 tools/release.py dry-run WHEEL|all        everything, in a clone that is thrown away

Nothing here publishes: a tag does, through `.github/workflows/release.yml`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import dev
import uv
import workspace

INSIDE: Final = "SANDBOXIO_RELEASE"
"""Set where this runs in the environment of the dependency group `release`."""


def enter(argv: list[str]) -> int:
    """Run this once more where towncrier, hatchling and cyclonedx-bom are, in the pinned versions."""
    with dev.alone():
        code = uv.run("lock", *dev.python(), quiet=True)
    if code:
        return code
    os.environ[INSIDE] = "1"
    group = ["--isolated", "--frozen", "--only-group", "release"]
    script = str(Path(__file__).resolve())
    return uv.run("run", *group, *dev.python(), "python", script, *argv, quiet=True)


def chosen(root: Path, name: str) -> list[workspace.Member]:
    """Return the wheels that an argument names: one, or all."""
    import release_plan

    return workspace.members(root) if name == "all" else [release_plan.member_of(root, name)]


def plan(root: Path, options: argparse.Namespace) -> int:
    """Say what has happened since the last release of each wheel."""
    import release_plan

    for member in chosen(root, options.wheel):
        print(release_plan.described(release_plan.plan(root, member)))
    return 0


def bump(root: Path, options: argparse.Namespace) -> int:
    """Write version and changelog into the working tree."""
    import release_rehearsal

    release_rehearsal.bumped(root, options.wheel, options.version)
    tag = f"{options.wheel}=={options.version}"
    print(f"Now: python3 tools/dev.py test, commit, and `git tag '{tag}'`.")
    return 0


def build(root: Path, options: argparse.Namespace) -> int:
    """Build what HEAD holds, with checksums and a bill of materials."""
    import release_build
    import release_plan
    import release_rehearsal

    member = release_plan.member_of(root, options.wheel)
    out = Path(options.out or root / "dist" / member.name).resolve()
    files = release_build.build(root, member.name, out)
    with tempfile.TemporaryDirectory(prefix="sandboxio-release-") as folder:
        work = Path(folder)
        siblings = release_rehearsal.floors(root, member, work / "siblings", print)
        wheels = [path for path in [*files, *siblings] if path.suffix == ".whl"]
        python = release_build.environment(
            work, [path.as_uri() for path in wheels], constraints=release_build.pinned(root)
        )
        beside = out.parent / f"{out.name}-attached"
        beside.mkdir(exist_ok=True)
        bill = release_build.bill_of_materials(root, member, python, beside)
    sums = release_build.checksums([*files, bill])
    (beside / "SHA256SUMS").write_text(sums, encoding="utf-8")
    print(sums, end="")
    return 0


def ready(root: Path, options: argparse.Namespace) -> int:
    """Compare a tag with the tree; the last line is the name of the wheel, for a workflow to read."""
    import release_rehearsal

    print(release_rehearsal.ready(root, options.tag).name)
    return 0


def notes(root: Path, options: argparse.Namespace) -> int:
    """Print what the changelog says of a tag."""
    import release_changelog
    import release_plan

    wheel, _, version = options.tag.partition("==")
    text = release_changelog.notes(release_plan.member_of(root, wheel), version)
    print(text or f"{options.tag} has no section in the changelog.", end="")
    return 0 if text else 1


def floors(root: Path, options: argparse.Namespace) -> int:
    """Run the unit tests of wheels on the lowest versions that they admit."""
    import release_floors

    failed = [
        member.name
        for member in chosen(root, options.wheel)
        if release_floors.test(root, member, options.rest) != 0
    ]
    if failed:
        print(f"Failed on the lowest versions: {', '.join(failed)}.")
    return 1 if failed else 0


def downstream(root: Path, options: argparse.Namespace) -> int:
    """Run the tests of the last released wheels against core as it is here."""
    import release_downstream

    members = [
        member for member in chosen(root, options.wheel) if release_downstream.sits_on_core(member)
    ]
    results = {
        member.name: release_downstream.test(root, member, options.rest) for member in members
    }
    if all(result is None for result in results.values()):
        print("Nothing that sits on core has been released yet, so nothing can break.")
    failed = [name for name, result in results.items() if result]
    if failed:
        print(f"Released, and broken by this core: {', '.join(failed)}.")
    return 1 if failed else 0


def dry_run(root: Path, options: argparse.Namespace) -> int:
    """Rehearse the release of wheels."""
    import release_history
    import release_rehearsal

    if not release_history.is_clean(root):
        print("What is not committed is not part of this.")
    for member in chosen(root, options.wheel):
        start = time.monotonic()

        def say(what: str, start: float = start) -> None:
            print(f"  {time.monotonic() - start:5.1f} s  {what}", flush=True)

        print(f"{member.name}:", flush=True)
        release_rehearsal.rehearse(root, member.name, say)
        say("done")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    top = argparse.ArgumentParser(
        prog="release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = top.add_subparsers(required=True, metavar="verb")
    for name, verb in {
        "plan": plan,
        "floors": floors,
        "downstream": downstream,
        "dry-run": dry_run,
    }.items():
        command = verbs.add_parser(name, help=verb.__doc__)
        optional = name in {"plan", "downstream"}
        command.add_argument("wheel", nargs="?" if optional else None, default="all")
        if name in {"floors", "downstream"}:
            command.add_argument("rest", nargs="*", help="arguments for pytest, after --")
        command.set_defaults(verb=verb)
    command = verbs.add_parser("bump", help=bump.__doc__)
    command.add_argument("wheel")
    command.add_argument("version")
    command.set_defaults(verb=bump)
    command = verbs.add_parser("build", help=build.__doc__)
    command.add_argument("wheel")
    command.add_argument("--out", help="where to, instead of dist/<wheel>")
    command.set_defaults(verb=build)
    for name, verb in {"ready": ready, "notes": notes}.items():
        command = verbs.add_parser(name, help=verb.__doc__)
        command.add_argument("tag", help="<wheel>==<version>")
        command.set_defaults(verb=verb)
    return top


def main(argv: list[str]) -> int:
    """Run one verb and return its exit code."""
    options = parser().parse_args(argv)
    if os.environ.get(INSIDE) != "1":
        return enter(argv)
    code: int = options.verb(workspace.ROOT, options)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
