"""Check that the documentation is true: links lead somewhere, and every example runs.

``docs [word ...]`` runs only the examples whose path holds one of the words.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
EXAMPLES: Final = ROOT / "docs" / "examples"
EXAMPLE_BOUND: Final = 120.0
"""Seconds that an example may take; they take one or two."""

LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)
FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Return every Markdown file that git tracks, or would."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).exists()]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub forms them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text())):
        plain = re.sub(r"[^\w\- ]", "", str(heading).lower())
        found.add(plain.replace(" ", "-"))
    return found


def broken_links(page: Path) -> list[str]:
    """Return what is wrong with the links of a page that stay in this repository."""
    problems: list[str] = []
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = str(target).partition("#")
        other = (page.parent / path).resolve() if path else page
        where = f"{page.relative_to(ROOT)}: {target}"
        if not other.exists():
            problems.append(f"{where}: there is no such file")
        elif anchor and other.suffix == ".md" and anchor not in anchors(other):
            problems.append(f"{where}: there is no such heading")
    return problems


def run_example(path: Path) -> bool:
    """Run an example as a user would and show its output if it fails."""
    command = [sys.executable, "-W", "error", str(path)]
    if path.name.startswith("test_"):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=EXAMPLE_BOUND, check=False
    )
    print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {path.relative_to(ROOT)}", flush=True)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
    return done.returncode == 0


def main(words: list[str]) -> int:
    """Check everything and return an exit code."""
    problems = [problem for page in pages() for problem in broken_links(page)]
    for problem in problems:
        print(problem)
    examples = [
        path
        for path in sorted(EXAMPLES.rglob("*.py"))
        if path.name != "conftest.py" and (not words or any(word in str(path) for word in words))
    ]
    failed = [path for path in examples if not run_example(path)]
    print(f"{len(pages())} pages, {len(examples)} examples, {len(problems) + len(failed)} problems")
    return 1 if problems or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
