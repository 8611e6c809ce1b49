"""What holds for every command: help, exit codes, pipes that close, and interrupts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest

from sandboxio._cli.parsing import CORE, build_parser
from sandboxio._cli.render import Style, columns, plain

PROGRAM = [sys.executable, "-m", "sandboxio._cli"]

PROCESS_BOUND = 60.0
"""Seconds for a process on a busy machine."""

NAMES = [plugin.name for plugin in CORE]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_with_examples_that_its_parser_takes(
    command: Any, name: str
) -> None:
    import shlex

    (plugin,) = [plugin for plugin in CORE if plugin.name == name]
    shown = command(name, "--help")
    assert shown.code == 0
    head, _, examples = shown.out.partition("\nexamples:\n")
    assert "--json" in head
    assert examples.splitlines() == [f"  {line}" for line in plugin.examples]
    for line in plugin.examples:
        words = shlex.split(line, comments=True)
        if words[0] == "eval":
            words = shlex.split(words[1].removeprefix("$(").removesuffix(")"))
        program, *rest = words[: words.index("|")] if "|" in words else words
        assert program == "sandboxio"
        assert build_parser(rest).parse_args(rest).command == name


@pytest.mark.parametrize("width", [40, 80, 120])
def test_help_fits_into_the_terminal(
    command: Any, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in ([], *([name] for name in NAMES)):
        shown = command(*words, "--help")
        # How the usage is broken is argparse's own business, and examples are there to be copied.
        prose = shown.out.partition("\n\n")[2].partition("\nexamples:")[0]
        too_long = [
            line
            for line in prose.splitlines()
            # A word that is wider than the terminal cannot be helped.
            if columns(line) > width and max(map(len, line.split())) < width // 2
        ]
        assert too_long == []


def test_version_is_that_of_the_wheel(command: Any) -> None:
    shown = command("--version")
    assert (shown.code, shown.out) == (0, f"sandboxio-core {metadata.version('sandboxio-core')}\n")


@pytest.mark.parametrize("words", [[], ["nope"], ["--nope"], ["doctor", "--nope"]])
def test_wrong_usage_is_exit_code_2_on_stderr(command: Any, words: list[str]) -> None:
    shown = command(*words)
    assert (shown.code, shown.out) == (2, "")
    assert "usage: sandboxio" in shown.err


def test_both_scripts_are_the_same_command() -> None:
    scripts = {
        point.name: point.value
        for point in metadata.entry_points(group="console_scripts")
        if point.name in ("sandboxio", "sbx")
    }
    assert scripts == dict.fromkeys(("sandboxio", "sbx"), "sandboxio._cli:main")


def test_reader_that_has_enough_is_no_traceback() -> None:
    for words in (["completion", "zsh"], ["doctor", "--json"]):
        process = subprocess.Popen(
            [*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        with process.stderr:
            assert process.stderr.read() == ""
        assert process.wait(PROCESS_BOUND) == 1


def test_terminal_without_unicode_shows_escapes_instead_of_failing() -> None:
    done = subprocess.run(
        [*PROGRAM, "reap", "--backend", "local", "--label", "name=é", "--json"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_BOUND,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["labels"] == {"name": "é"}


def test_debug_shows_the_whole_traceback() -> None:
    for debug in ("", "1"):
        done = subprocess.run(
            [*PROGRAM, "route", "--file", "/nonexistent"],
            env={**os.environ, "SBX_DEBUG": debug, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PROCESS_BOUND,
        )
        assert done.returncode == 1
        assert ("Traceback" in done.stderr) == bool(debug)
        assert "cannot be read" in done.stderr


INTERRUPTED = """
import os, signal, sys, threading
from sandboxio._cli import main
import sandboxio, anyio

class Slow:
    name = "slow"
    isolation = sandboxio.IsolationTier.CONTAINER
    capabilities = sandboxio.Capability(0)
    async def list_managed(self, *, labels=None):
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep_forever()
    async def kill_managed(self, sandbox_id): ...

sandboxio.register("slow", Slow)
sys.exit(main(["reap", "--backend", "slow"]))
"""


def test_interrupt_is_exit_code_130_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_BOUND,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


INTERRUPTED_DEMO = """
import os, signal, sys
from sandboxio._cli import demo, main

async def interrupted(sandbox):
    print(sandbox.id, flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    return await sandbox.run(["sleep", "300"])

demo._run_code = interrupted
sys.exit(main(["demo", "--backend", "local://", "--json"]))
"""


def test_interrupted_demo_leaves_no_sandbox() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_DEMO],
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_BOUND,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    listed = subprocess.run(
        [*PROGRAM, "reap", "--backend", "local", "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PROCESS_BOUND,
    )
    assert done.stdout.strip().startswith("sbx-")
    assert done.stdout.strip() not in listed.stdout


# ----- how text is shown


def test_plain_text_does_nothing_to_a_terminal() -> None:
    assert plain("a\tb\nc") == "a\tb\nc"
    evil = "\x1b[31m\x07\x08\r\x00\x9b31m\u202e\u2066\x7f"
    shown = plain(evil)
    assert shown.isascii()
    assert shown.isprintable()
    assert plain("\udc80") == "\\udc80"
    assert plain("日本 é") == "日本 é"


def test_text_is_wrapped_by_columns_and_words_are_kept_whole() -> None:
    style = Style(colour=True, width=20)
    first = style.good("ok") + "  "
    shown = style.wrapped("one two three four /a/rather/long/path five", first=first, rest="    ")
    assert [columns(line) for line in shown.split("\n")] == [17, 8, 23, 8]
    assert "    /a/rather/long/path" in shown
    assert columns("日本") == 4
    assert Style(colour=False).wrapped("one  two\nthree") == "one two three"
