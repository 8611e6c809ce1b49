"""Run the Python blocks of one page, in a process of its own: ``docs_run.py PAGE``.

What a DSN means is what the page says: see `docs_blocks`. Prints what was wrong, and exits 1 then.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Generator
from pathlib import Path
from types import CodeType
from typing import Any, Final

import anyio

import dockerd
import docs_blocks
from docs_blocks import Block, Page

PAGE_BOUND: Final = 600.0
"""Seconds that the blocks of one page may take together; most take two on a machine that is idle."""

PRINTS: Final = re.compile(r"#\s+prints (.+)$")
RAISES: Final = re.compile(r"#\s+raises (\w+)")
DOCUMENTED_IMAGE: Final = "python:3.12-slim"


class Wrong(Exception):
    """A block did not do what its page says."""


async def run(page: Page, home: Path) -> list[str]:
    """Run the blocks of a page, and return what was wrong."""
    space: dict[str, Any] = {"__name__": "__page__"}
    problems: list[str] = []
    try:
        for block in page.blocks:
            if block.language != "python" or block.skipped is not None:
                continue
            if docs_blocks.lacking(page, block):
                continue  # who runs this has said so
            try:
                await _run_block(page, block, space, home)
            except Wrong as wrong:
                problems.append(f"{page.path}:{block.line}: {wrong}")
                break  # what comes after it builds on it
    finally:
        await _end_what_is_left(space)
    return problems


async def _run_block(page: Page, block: Block, space: dict[str, Any], home: Path) -> None:
    if block.is_test and not block.hidden:
        setups = [each.code for each in page.blocks if each.hidden and each.line < block.line]
        _pytest("\n".join([*setups, block.code]), home)
        return
    raised = RAISES.findall(block.code)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            await _execute(_adapted(block.code), f"{page.path.name}:{block.line}", space)
    except Exception as error:  # whatever a page's code raises is looked at
        if type(error).__name__ not in raised:
            raise Wrong("".join(traceback.format_exception(error))) from error
        raised.remove(type(error).__name__)
    if raised:
        raise Wrong(f"it did not raise {raised[0]}")
    _compare(block, printed.getvalue())


async def _execute(source: str, name: str, space: dict[str, Any]) -> None:
    code: CodeType = compile(source, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, space)
    if inspect.iscoroutine(result):
        await result


def _adapted(code: str) -> str:
    """Return the code with the image that this machine has in the place of the documented one."""
    return code.replace(DOCUMENTED_IMAGE, dockerd.PYTHON_IMAGE)


def _compare(block: Block, got: str) -> None:
    if block.output is not None and not docs_blocks.matches(block.output, got):
        raise Wrong(f"it printed\n{got}\nand the page says\n{block.output}")
    rest = got
    for line in block.code.splitlines():
        said = PRINTS.search(line)
        if said is None:
            continue
        pattern = ".*".join(map(re.escape, said[1].strip().split("…")))
        found = re.search(pattern, rest)
        if found is None:
            raise Wrong(f"it did not print {said[1]!r}, but\n{got}")
        rest = rest[found.end() :]


def _pytest(code: str, home: Path) -> None:
    path = home / "test_block.py"
    path.write_text(code, encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-o", "anyio_mode=auto"]
    options += ["-W", "error", "--strict-markers", "-o", "markers=docker: needs a daemon"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(path)],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=PAGE_BOUND,
        check=False,
    )
    if done.returncode != 0:
        raise Wrong(done.stdout + done.stderr)


async def _end_what_is_left(space: dict[str, Any]) -> None:
    """End the sandboxes that a page has left open, as its reader would when leaving the prompt."""
    from sandboxio.errors import SandboxError

    for value in list(space.values()):
        ends = getattr(value, "kill", None)
        if ends is None or not hasattr(value, "isolation") or inspect.isclass(value):
            continue
        with contextlib.suppress(SandboxError):
            ended = ends()
            if inspect.iscoroutine(ended):
                await ended


@contextlib.contextmanager
def surroundings(target: str) -> Generator[None]:
    """Let DSNs mean what the page says that they mean."""
    if target == "the fake":
        from sandboxio.testing import offline

        with offline():
            yield
    elif target == "the local E2B":
        from sandboxio import Resources
        from sandboxio_testing.e2b import LocalE2B

        with LocalE2B(resources=Resources(memory_mb=512)) as server:
            os.environ.update(server.environ)
            yield
    else:
        yield


def main(path: Path) -> int:
    """Run one page and return an exit code."""
    page = docs_blocks.read(path)
    with tempfile.TemporaryDirectory(prefix="docs-") as folder:
        home = Path(folder)
        # Blocks may write files, and some read those of the examples.
        os.chdir(home)

        async def bounded() -> list[str]:
            with anyio.fail_after(PAGE_BOUND):
                return await run(page, home)

        with surroundings(page.target):
            problems = [*page.problems, *anyio.run(bounded)]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
