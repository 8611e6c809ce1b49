"""The fenced blocks of our Markdown, and what a page says about running them.

The Python blocks of a page run from top to bottom in one process, as they would in a notebook, and
a block that defines tests is given to pytest. These comments say the rest:

    <!-- runs on: the fake -->     before the first block: what a DSN of this page means. One of
                                   `local`, `Docker`, `the local E2B`, `the fake`; `local` if none
    <!-- not run: why -->          just before a block; the site shows the reason
    <!-- setup                     Python that the page does not show, run in its place
    code
    -->

In a block, `# prints 42` after a statement says what it prints, and `# raises ExecutionTimeout` what
it raises. A block ```` ```output ```` after another one says all that it prints. In both, `…` stands
for anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import dockerd

NEEDS_DOCKER: Final = re.compile(r"docker://|Docker(?:Config|Backend)\(")

TARGETS: Final = ("local", "Docker", "the local E2B", "the fake")

FENCE: Final = re.compile(r"^(?P<ticks>`{3,})(?P<info>[^`\n]*)$")
RUNS_ON: Final = re.compile(r"^<!-- runs on: (.+?) -->$", re.MULTILINE)
NOT_RUN: Final = re.compile(r"^<!-- not run: (.+?) -->$", re.DOTALL)


@dataclass
class Block:
    """One fenced block, or one hidden setup.

    Attributes:
        language: First word after the fence; ``"python"`` for a setup.
        code: The text between the fences.
        line: Line of the page where the text begins, from 1.
        skipped: Why it is not run, if it says so.
        output: What it prints, if a block after it says so.
        hidden: Whether it is a setup.
    """

    language: str
    code: str
    line: int
    skipped: str | None = None
    output: str | None = None
    hidden: bool = False

    @property
    def is_test(self) -> bool:
        """Whether it is for pytest."""
        return bool(re.search(r"^\s*(async )?def test_\w+\(", self.code, re.MULTILINE))


@dataclass
class Page:
    """The blocks of a page, and where its sandboxes come from."""

    path: Path
    target: str
    blocks: list[Block]
    problems: list[str]


def read(path: Path) -> Page:
    """Return what a page holds; what is wrong with its comments is in ``problems``."""
    text = path.read_text(encoding="utf-8")
    named = RUNS_ON.findall(text)
    target = named[0] if named else "local"
    problems = [f"{path}: no such target: {name}" for name in named if name not in TARGETS]
    if len(named) > 1:
        problems.append(f"{path}: it says more than once what it runs on")
    return Page(path, target, _blocks(text.splitlines()), problems)


def _blocks(lines: list[str]) -> list[Block]:
    found: list[Block] = []
    reason: str | None = None
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("<!--"):
            begin = number
            comment = [line]
            while not comment[-1].endswith("-->") and number < len(lines):
                comment.append(lines[number])
                number += 1
            said = NOT_RUN.match("\n".join(comment))
            if said:
                reason = " ".join(said[1].split())
            elif comment[0] == "<!-- setup":
                code = "\n".join(comment[1:-1])
                found.append(Block("python", code, begin + 1, hidden=True))
            continue
        fence = FENCE.match(line)
        if fence is None:
            if line.strip():
                reason = None
            continue
        begin = number
        while number < len(lines) and lines[number].rstrip() != fence["ticks"]:
            number += 1
        language = fence["info"].split()[0] if fence["info"].strip() else ""
        code = "\n".join(lines[begin:number])
        number += 1
        if language == "output" and found and reason is None:
            found[-1].output = code
        else:
            found.append(Block(language, code, begin + 1, skipped=reason))
        reason = None
    return found


def lacking(page: Page, block: Block) -> str | None:
    """Return why a block cannot run on this machine, ``None`` if it can or has to.

    Docker is all that a machine may lack, and only where it was not promised.
    """
    faked = page.target == "the fake" or "sbx_offline" in block.code
    if faked or not NEEDS_DOCKER.search(block.code):
        return None
    return None if dockerd.promised() else dockerd.missing()


def matches(expected: str, got: str) -> bool:
    """Say whether `got` is what was expected, where ``…`` stands for anything on its line."""
    lines = [".*".join(map(re.escape, line.split("…"))) for line in _lines(expected)]
    return re.fullmatch("\n".join(lines), "\n".join(_lines(got))) is not None


def _lines(text: str) -> list[str]:
    """Return lines with one space for several: columns are as wide as what is in them."""
    return [" ".join(line.split()) for line in text.strip().splitlines()]
