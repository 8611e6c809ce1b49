#!/usr/bin/env python3
"""Keep the exact versions that development uses, without the address of any package index.

`uv.lock` records where each file came from, so it belongs to one place and is not committed. What is
committed is a list of exact versions between two marks in the root `pyproject.toml`, under
`constraint-dependencies`. uv reads that list itself: in a fresh clone plain `uv lock` resolves to
exactly these versions, from whichever index that machine uses, however many newer ones exist.

    python3 tools/pins.py            say whether the pins and uv.lock agree (exit code 1 if not)
    python3 tools/pins.py --write    take the versions of uv.lock over into the pins
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
BEGIN: Final = "# <pins>"
END: Final = "# </pins>"


class PinsError(Exception):
    """The pins or the lock cannot be read; the message says what to do."""


def pins_of_lock(lock: str) -> list[str]:
    """Return one requirement for each package that `lock` takes from an index, sorted.

    Where the resolution forks, a package has several versions, each with the markers of its fork.
    """
    packages: list[dict[str, Any]] = tomllib.loads(lock).get("package", [])
    pins: list[str] = []
    for package in packages:
        if "registry" not in package["source"]:
            continue  # a member of the workspace, or the workspace itself
        pin = f"{package['name']}=={package['version']}"
        # uv lists them in the order in which it came to them, which the same lock need not have twice.
        markers: list[str] = sorted(package.get("resolution-markers", []))
        if markers:
            alternatives = markers if len(markers) == 1 else [f"({marker})" for marker in markers]
            pin += " ; " + " or ".join(alternatives)
        pins.append(pin)
    return sorted(pins)


def pins_of_project(project: str) -> list[str]:
    """Return the pins that the root `pyproject.toml` holds, in the order of the file."""
    pins: list[str] = tomllib.loads(project)["tool"]["uv"].get("constraint-dependencies", [])
    return pins


def with_pins(project: str, pins: list[str]) -> str:
    """Return the text of the root `pyproject.toml` with `pins` in place of its own."""
    head, begin, rest = project.partition(BEGIN + "\n")
    _, end, tail = rest.partition(END + "\n")
    if not (begin and end):
        message = (
            f"pyproject.toml has lost its marks: put `{BEGIN}` and `{END}` back, each on a line."
        )
        raise PinsError(message)
    lines = "".join(f'  "{pin}",\n' for pin in pins)
    body = f"constraint-dependencies = [\n{lines}]\n" if pins else "constraint-dependencies = []\n"
    return head + begin + body + end + tail


def difference(project: str, lock: str) -> str:
    """Return how the pins differ from the lock as a diff; an empty string when they agree."""
    return "\n".join(
        difflib.unified_diff(
            pins_of_project(project), pins_of_lock(lock), "pins", "uv.lock", lineterm="", n=0
        )
    )


def read_lock(root: Path = ROOT) -> str:
    """Return the text of `uv.lock`, which every checkout makes for itself."""
    path = root / "uv.lock"
    if not path.exists():
        message = "There is no uv.lock yet: `python3 tools/dev.py setup` makes it."
        raise PinsError(message)
    return path.read_text(encoding="utf-8")


def write_pins(pins: list[str], root: Path = ROOT) -> bool:
    """Put `pins` into the root `pyproject.toml` and return whether that changed the file."""
    path = root / "pyproject.toml"
    before = path.read_text(encoding="utf-8")
    after = with_pins(before, pins)
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def main(argv: list[str] | None = None) -> int:
    """Compare or write the pins and return the exit code."""
    parser = argparse.ArgumentParser(description="Compare the committed pins with uv.lock.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="compare only; the default")
    choice.add_argument("--write", action="store_true", help="take the versions of uv.lock over")
    options = parser.parse_args(argv)
    try:
        lock = read_lock()
        if options.write:
            changed = write_pins(pins_of_lock(lock))
            print("The pins were written." if changed else "The pins were up to date.")
            return 0
        diff = difference((ROOT / "pyproject.toml").read_text(encoding="utf-8"), lock)
    except PinsError as error:
        print(error, file=sys.stderr)
        return 1
    if diff:
        print(diff)
        print("The pins and uv.lock differ: `python3 tools/dev.py lock` brings them together.")
        return 1
    print(f"{len(pins_of_lock(lock))} pins agree with uv.lock.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
