"""The blocks of our pages that are not Python: transcripts, and files that a reader copies.

A transcript is either commands, one a line, or ``$ command`` lines with what each prints. Commands of
sandboxio run, and `sandboxio mcp`, which would serve until it is interrupted, with `--check`. What installs a wheel is compared with the wheels, and a verb of this workspace with
the verbs. Anything else needs a ``<!-- not run: why -->``.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import yaml

import dev
import dockerd
import docs_blocks
import workspace
from docs_blocks import Block, Page
from sandboxio.errors import SandboxError

COMMAND_BOUND: Final = 300.0
"""Seconds for one command; they take one or two."""

SHOWN: Final = {"", "text", "output", "toml", "json", "yaml", "markdown"}
"""Fences that are not run. Those of a format are parsed."""


def check(page: Page) -> list[str]:
    """Return what is wrong with the transcripts and files of a page."""
    problems: list[str] = []
    for block in page.blocks:
        if block.skipped is not None or block.language in ("python", "dockerfile"):
            continue
        if docs_blocks.lacking(page, block):
            continue  # who runs this has said so
        try:
            wrong = _check(page, block)
        except (
            ValueError,
            yaml.YAMLError,
            subprocess.TimeoutExpired,
            SandboxError,  # of a routing file that is wrong
        ) as error:
            wrong = [str(error)]
        problems += [f"{page.path}:{block.line}: {each}" for each in wrong]
    return problems


def _check(page: Page, block: Block) -> list[str]:
    if block.language == "console":
        return _transcript(page, block)
    if block.language not in SHOWN:
        return [f"nobody knows what to do with a fence {block.language!r}"]
    if block.language == "json" and "…" not in block.code:
        json.loads(block.code)
    if block.language == "toml":
        tomllib.loads(block.code)
    if block.language == "yaml":
        _yaml(block.code)
    return []


def _yaml(text: str) -> None:
    value: Any = yaml.safe_load(text)
    if "\nisolation_classes:" in text:
        from sandboxio.routing import Router

        names = re.findall(r"os\.environ/(\w+)", text)
        os.environ.update(dict.fromkeys(names, "for-the-documentation"))
        Router.from_dict(value)


def _transcript(page: Page, block: Block) -> list[str]:
    problems: list[str] = []
    for command, output in commands(block):
        words = _words(command)
        if words[:2] == ["sandboxio", "mcp"] and "--check" not in words:
            command = f"{command.partition(' #')[0]} --check"
        kind = known(words)
        if kind is None:
            problems.append(f"nobody knows whether this runs: {command}")
        elif kind:
            problems += _run(page, command, output)
        else:
            problems += stated(words)
    return problems


def commands(block: Block) -> list[tuple[str, str | None]]:
    """Return the commands of a transcript, each with its output where the page shows it."""
    text = block.code.replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip()]
    if not any(line.startswith("$ ") for line in lines):
        return [(line, block.output) for line in lines]
    found: list[tuple[str, str | None]] = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], None))
        elif found:
            command, output = found[-1]
            found[-1] = (command, line if output is None else f"{output}\n{line}")
    return found


def _words(command: str) -> list[str]:
    """Return a command's words, without the variables that are set for it."""
    words = shlex.split(command, comments=True)
    while words and re.match(r"[A-Z_]+=", words[0]):
        del words[0]
    return words


def known(words: list[str]) -> bool | None:
    """Say whether a command is run (True) or only compared with what there is (False)."""
    match words:
        case ["uv", "pip", "install", *_] | ["uv", "add", *_] | ["pip", "install", _]:
            return False
        case ["python3", "tools/dev.py", *_] | ["uvx", "sandboxio", *_] | ["export", _]:
            return False
        case ["sandboxio", *_] | ["python", *_]:
            return True
        case _:
            return None


def stated(words: list[str]) -> list[str]:
    """Return what is wrong with a command that is not run."""
    if words[:2] == ["python3", "tools/dev.py"] and words[2] not in dev.VERBS:
        return [f"there is no verb {words[2]}"]
    if words[0] == "uvx":
        return [] if words[2] in cli_commands() else [f"there is no command {words[2]}"]
    if words[0] in ("uv", "pip"):
        return [wrong for word in words[2:] if (wrong := _requirement(word))]
    return []


def _requirement(word: str) -> str:
    match = re.fullmatch(r"(sandboxio[\w-]*)(?:\[([\w,-]+)\])?(?:[<>=!~].*)?", word)
    if match is None:
        return ""
    wheels = {member.name: member.folder for member in workspace.members()}
    if match[1] not in wheels:
        return f"there is no wheel {match[1]}"
    project = workspace.root_settings(wheels[match[1]])["project"]
    missing = set(filter(None, (match[2] or "").split(","))) - set(
        project.get("optional-dependencies", {})
    )
    return f"{match[1]} has no extra {', '.join(sorted(missing))}" if missing else ""


def cli_commands() -> set[str]:
    """Return the commands of the command line."""
    import gen_cli

    return {name for name, _ in gen_cli.commands()}


def _run(page: Page, command: str, output: str | None) -> list[str]:
    command = command.replace("python:3.12-slim", dockerd.PYTHON_IMAGE)
    folder = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=docs_cwd(page),
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_BOUND,
        check=False,
    )
    got = done.stdout + done.stderr
    if output is not None:
        if docs_blocks.matches(output, got):
            return []
        return [f"`{command}` printed\n{got}\nand the page says\n{output}"]
    return [f"`{command}` failed:\n{got}"] if done.returncode else []


def docs_cwd(page: Page) -> Path:
    """Return where the commands of a page run: where the files are that it speaks of."""
    del page
    return workspace.ROOT / "docs" / "examples" / "routing"
