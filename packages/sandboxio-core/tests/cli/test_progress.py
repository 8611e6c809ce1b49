"""What is shown while something takes long: a bar on a terminal, one line elsewhere."""

from __future__ import annotations

import io
import logging
import os
import pty
import re
import subprocess
import sys
from typing import Any

import pytest

from sandboxio._cli import progress as showing
from sandboxio._cli.progress import Display, displayed, line_of
from sandboxio._cli.render import Style, columns
from sandboxio.spi import Progress

PROCESS_BOUND = 60.0
"""Seconds for a process that makes one sandbox, on a busy machine."""

PULL = "Pulling the image registry.invalid/a-rather-long-name/of-an-image:1.2.3"

logger = logging.getLogger("sandboxio.tested")


def handled(display: Display, **values: Any) -> None:
    """Hand a display what an adapter logs."""
    record = logger.makeRecord(logger.name, logging.DEBUG, "", 0, "", (), None)
    record.sandboxio_progress = Progress(what=PULL, **values)
    display.handle(record)


@pytest.mark.parametrize("width", [20, 40, 80, 120])
@pytest.mark.parametrize(
    "progress",
    [
        None,
        Progress(what=PULL),
        Progress(what=PULL, done=3_000_000),
        Progress(what=PULL, done=3_000_000, total=123_000_000),
        Progress(what=PULL, done=123_000_000, total=123_000_000),
        Progress(what=PULL, done=200_000_000, total=123_000_000),
        Progress(what="\x1b[2J" * 9, done=1, total=2),
    ],
)
def test_line_fits_into_every_terminal(width: int, progress: Progress | None) -> None:
    line = line_of(progress, "create", 12.3, width)
    assert 0 < columns(line) <= width
    assert "\x1b" not in line
    assert "\n" not in line


def test_bar_shows_how_much_is_done() -> None:
    line = line_of(Progress(what="Pulling it", done=50_000_000, total=200_000_000), "", 0, 80)
    assert line == "Pulling it [#####---------------]  25%  50 of 200 MB"
    assert line_of(Progress(what="Pulling it", done=5_000_000), "", 0, 80) == "Pulling it 5 MB"


def test_terminal_has_a_bar_that_leaves_nothing() -> None:
    stream = io.StringIO()
    display = Display(stream, Style(colour=True, width=80))
    display.begin("create")
    display.tick()
    handled(display, done=50_000_000, total=200_000_000)
    display.tick()
    assert "[#####---------------]" in stream.getvalue()
    handled(display, done=200_000_000, total=200_000_000, over=True)
    display.tick()
    display.end()
    shown = stream.getvalue()
    assert shown.endswith("\r\x1b[K")
    assert "\n" not in shown
    display.tick()
    assert stream.getvalue() == shown, "nothing goes on any more"


@pytest.mark.parametrize("kind", ["pipe", "dumb terminal"])
def test_elsewhere_there_is_one_line(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "dumb terminal":
        monkeypatch.setenv("TERM", "dumb")
    stream = io.StringIO()
    display = Display(stream, Style(colour=False, width=None if kind == "pipe" else 80))
    display.begin("create")
    for done in range(0, 200, 10):
        handled(display, done=done * 1_000_000, total=200_000_000)
        display.tick()
    display.end()
    assert stream.getvalue() == f"{PULL} ...\n"


def test_slow_step_says_so_once_where_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "SLOW", 0.0)
    stream = io.StringIO()
    display = Display(stream, Style(colour=False))
    display.begin("create")
    for _ in range(3):
        display.tick()
    display.end()
    assert stream.getvalue() == "create: this takes a while ...\n"


def test_other_records_are_not_shown_and_the_logger_is_left_as_it_was() -> None:
    root = logging.getLogger("sandboxio")
    before = root.level, list(root.handlers)
    stream = io.StringIO()
    display = Display(stream, Style(colour=False))
    display.handle(logger.makeRecord("n", logging.ERROR, "", 0, "other", (), None))
    assert stream.getvalue() == ""
    with displayed():
        assert len(root.handlers) == len(before[1]) + 1
    assert (root.level, root.handlers) == before


def on_a_terminal(*words: str, **environ: str) -> tuple[int, str]:
    """Run ``sandboxio`` on a terminal of its own; returns its exit code and all that it wrote."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sandboxio._cli", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, **environ},
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    try:
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # the last one who had it open has closed it
                break
            if not data:
                break
            shown += data
        return process.wait(PROCESS_BOUND), shown.decode()
    finally:
        os.close(ours)
        if process.poll() is None:
            process.kill()
            process.wait()


def on_screen(shown: str) -> list[str]:
    """The lines that are left on the screen: what was drawn over is gone."""
    lines = shown.replace("\r\n", "\n").split("\n")
    return [re.sub(r"\x1b\[\d*m", "", line.rpartition("\r\x1b[K")[2]) for line in lines]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_demo_fits_on_a_terminal_and_shows_that_it_works(width: int) -> None:
    code, shown = on_a_terminal(
        "demo", "--backend", "local://", TERM="xterm-256color", COLUMNS=str(width)
    )
    assert code == 0, shown
    lines = on_screen(shown)
    assert [line for line in lines if columns(line) > width] == []
    assert "All steps passed on local" in " ".join(lines)
    assert "create" in shown.partition("\x1b[K")[2], "the step was shown while it went on"
    assert "\x1b[32mok" in shown


def test_no_color_wins_on_a_terminal() -> None:
    code, shown = on_a_terminal(
        "doctor", "local", "--timeout", "30", NO_COLOR="1", TERM="xterm-256color", COLUMNS="80"
    )
    assert code == 0
    assert "\x1b[" not in shown
    assert all(columns(line) <= 80 for line in on_screen(shown) if "/" not in line)
    code, shown = on_a_terminal("doctor", "local", "--timeout", "30", TERM="dumb")
    assert "\x1b[" not in shown
    code, shown = on_a_terminal("doctor", "local", "--timeout", "30", TERM="xterm-256color")
    assert "\x1b[32m" in shown
