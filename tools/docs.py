"""Check that the documentation is true: generated pages are current, links lead somewhere, code runs.

``docs``                 everything, the site in ``site/`` included
``docs --write``         bring the generated pages up to date first
``docs WORD ...``        run only the pages and examples whose path holds one of the words
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import docs_blocks
import docs_console
import docs_site
import gen_cli
import gen_errors
import gen_llms

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"
EXAMPLES: Final = DOCS / "examples"
ELSEWHERE: Final = {
    "integrations/crewai_agent.py": "`python3 tools/dev.py crewai` runs it, where CrewAI can be",
}
"""Examples that another verb runs, and which."""

EXAMPLE_BOUND: Final = 700.0
"""Seconds that an example or a page may take, whose own bound comes first; they take one or two."""

AT_ONCE: Final = 2
"""Pages and examples that run at the same time: most of each is a Python that starts."""

MADE_BY_THE_BUILD: Final = {DOCS / "llms-full.txt"}
"""Files that only the site has."""

LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)
FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def tracked() -> list[Path]:
    """Return every Markdown file that git tracks, or would."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).exists()]


def executed() -> list[Path]:
    """Return the pages whose blocks run: everything in docs/, and what wheels and visitors show first."""
    shown = {ROOT / "README.md", *ROOT.glob("packages/*/README.md")}
    return [path for path in tracked() if path in shown or path.is_relative_to(DOCS)]


# --- links, on the pages as a repository's web site shows them -----------------------------------


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
        if not other.exists() and other not in MADE_BY_THE_BUILD:
            problems.append(f"{where}: there is no such file")
        elif anchor and other.suffix == ".md" and anchor not in anchors(other):
            problems.append(f"{where}: there is no such heading")
    return problems


# --- the steps: each returns what is wrong -------------------------------------------------------


def links() -> list[str]:
    """Follow the links of every page."""
    return [problem for page in tracked() for problem in broken_links(page)]


def generated(*, write: bool) -> list[str]:
    """Compare the generated pages with what they are made from, or write them."""
    arguments = ["--write"] if write else []
    # The last one reads what the others write.
    makers = {"errors": gen_errors.main, "cli": gen_cli.main, "llms": gen_llms.main}
    problems: list[str] = []
    for name, make in makers.items():
        try:
            if make(arguments) != 0:
                problems.append(f"generated pages: {name}")
        except ValueError as error:  # an example that does not end as its page says
            problems.append(f"generated pages: {name}: {error}")
    return problems


def built() -> list[str]:
    """Build the site and look at every page of it."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--clean", "--strict"],
        cwd=ROOT,
        # The theme prints news of its makers, which is not ours to tell in every build.
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = (done.stdout + done.stderr).strip()
    if done.returncode != 0 or said:
        return [f"mkdocs: {said or done.returncode}"]
    return docs_site.problems(ROOT / "site")


def _run(command: list[str], path: Path, folder: str) -> list[str]:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=EXAMPLE_BOUND,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        print(f"FAIL {path.relative_to(ROOT)}", flush=True)
        return [f"{path.relative_to(ROOT)}: {late}"]
    print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {path.relative_to(ROOT)}", flush=True)
    return [done.stdout + done.stderr] if done.returncode else []


def run_example(path: Path) -> list[str]:
    """Run an example as a user would."""
    elsewhere = ELSEWHERE.get(path.relative_to(EXAMPLES).as_posix())
    if elsewhere is not None:
        print(f"skip {path.relative_to(ROOT)}: {elsewhere}", flush=True)
        return []
    command = [sys.executable, "-W", "error", str(path)]
    if path.name.startswith("test_"):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    return _run(command, path, str(ROOT))


def run_docstrings(path: Path) -> list[str]:
    """Run what the reference shows of the docstrings of all wheels."""
    command = [sys.executable, "-W", "error", str(ROOT / "tools" / "docs_docstrings.py")]
    with tempfile.TemporaryDirectory(prefix="docs-") as folder:
        return _run(command, path, folder)


def run_page(path: Path) -> list[str]:
    """Run the blocks of a page."""
    page = docs_blocks.read(path)
    for block in page.blocks:
        if block.skipped is None and (lacking := docs_blocks.lacking(page, block)):
            print(f"skip {path.relative_to(ROOT)}:{block.line}: {lacking}", flush=True)
    problems = [*page.problems, *docs_console.check(page)]
    if not any(each.language == "python" and each.skipped is None for each in page.blocks):
        return problems
    with tempfile.TemporaryDirectory(prefix="docs-") as folder:
        runner = str(ROOT / "tools" / "docs_run.py")
        return problems + _run([sys.executable, "-W", "error", runner, str(path)], path, folder)


def code(words: list[str]) -> list[str]:
    """Run the examples and the blocks of all pages, or of those that a word names."""

    def chosen(path: Path) -> bool:
        return not words or any(word in str(path.relative_to(ROOT)) for word in words)

    jobs: list[tuple[Callable[[Path], list[str]], Path]] = [
        (run_example, path)
        for path in sorted(EXAMPLES.rglob("*.py"))
        if path.name != "conftest.py" and chosen(path)
    ]
    if not words:
        jobs.append((run_docstrings, ROOT / "packages"))
    jobs += [(run_page, path) for path in executed() if chosen(path)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        started = [pool.submit(run, path) for run, path in jobs]
    return [wrong for job in started for wrong in job.result()]


def main(arguments: list[str]) -> int:
    """Check everything and return an exit code."""
    words = [word for word in arguments if not word.startswith("-")]
    steps: dict[str, Callable[[], list[str]]] = {"code": lambda: code(words)}
    if not words:
        write = "--write" in arguments
        steps = {
            "generated": lambda: generated(write=write),
            "links": links,
            "site": built,
            **steps,
        }
    wrong = 0
    for name, step in steps.items():
        began = time.monotonic()
        problems = step()
        print("\n".join(problems) if problems else f"{name}: {time.monotonic() - began:.0f} s")
        wrong += len(problems)
    print(f"{wrong} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
