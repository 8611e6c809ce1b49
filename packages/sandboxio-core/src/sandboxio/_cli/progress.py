"""What is shown while something takes long: a bar on a terminal, and one line elsewhere.

It goes to stderr, so that what a command prints stays what it printed.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from ..spi import Progress
from .render import Style, columns, plain

__all__ = ["Display", "displayed"]

TICK = 0.1
"""Seconds between two looks of a bar."""

SLOW = 3.0
"""Seconds after which a step says, where there is no bar, that it still goes on."""

BAR = 20
"""Columns of a bar, where there is room for it."""

SPINNER = "|/-\\"

ERASE = "\r\x1b[K"


class Display(logging.Handler):
    """Draws what is going on; fed by steps of a command, and by log records with `Progress`.

    Records come from any thread; the lock of the handler keeps lines whole.
    """

    def __init__(self, stream: TextIO, style: Style) -> None:
        super().__init__(logging.DEBUG)
        self._stream = stream
        self._width = None if os.environ.get("TERM") == "dumb" else style.width
        self._step: str | None = None
        self._began = 0.0
        self._progress: Progress | None = None
        self._said: set[str] = set()
        self._drawn = False

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record; the ones without progress are for somebody else."""
        progress = Progress.in_record(record)
        if progress is None:
            return
        self._progress = None if progress.over else progress
        if self._width is None:
            self._say(f"{progress.what} ...")
        else:
            self._draw()

    def begin(self, step: str) -> None:
        """A step begins that may take its time."""
        with _held(self):
            self._step, self._began = step, time.monotonic()

    def tick(self) -> None:
        """Show that it still goes on."""
        with _held(self):
            if self._step is None:
                return
            if self._width is not None:
                self._draw()
            elif self._progress is None and time.monotonic() - self._began > SLOW:
                self._say(f"{self._step}: this takes a while ...")

    def end(self) -> None:
        """The step is over: leave nothing of it on the screen."""
        with _held(self):
            self._step, self._progress = None, None
            if self._drawn:
                self._drawn = False
                self._write(ERASE)

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._write(plain(line) + "\n")

    def _draw(self) -> None:
        assert self._width is not None
        self._drawn = True
        # The last column stays free, or a terminal would begin another line.
        self._write(ERASE + line_of(self._progress, self._step or "", self._age, self._width - 1))

    @property
    def _age(self) -> float:
        return time.monotonic() - self._began

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            return  # whoever read it is gone; what it was about goes on


def line_of(progress: Progress | None, step: str, age: float, width: int) -> str:
    """Return what is going on, in one line of at most so many columns."""
    if progress is None:
        head, tail = step, f"{SPINNER[int(age / TICK) % len(SPINNER)]} {age:.0f} s"
    else:
        head, tail = progress.what, _counted(progress, BAR if width > 3 * BAR else BAR // 2)
    room = width - columns(tail) - 1
    if room < 1:
        return tail[:width]
    shown = plain(" ".join(head.split()))
    if columns(shown) > room:
        shown = shown[: max(0, room - 3)] + "..."[:room]
    return f"{shown} {tail}"


def _counted(progress: Progress, bar: int) -> str:
    amount = str(progress).removeprefix(f"{progress.what}: ").removesuffix(".")
    if not progress.total:
        return amount if progress.done else "..."
    part = min(1.0, max(0.0, progress.done / progress.total))
    full = int(part * bar)
    return f"[{'#' * full}{'-' * (bar - full)}] {part:4.0%}  {amount}"


@contextmanager
def _held(handler: logging.Handler) -> Generator[None, None, None]:
    handler.acquire()
    try:
        yield
    finally:
        handler.release()


@contextmanager
def displayed() -> Generator[Display, None, None]:
    """Show on stderr what goes on in this block."""
    logger = logging.getLogger("sandboxio")
    level = logger.level
    display = Display(sys.stderr, Style.for_stream(sys.stderr))
    over = threading.Event()

    def tick() -> None:
        while not over.wait(TICK):
            display.tick()

    # A thread, so that it goes on when an event loop does not, and is no task group around others.
    ticker = threading.Thread(target=tick, name="sandboxio progress", daemon=True)
    logger.addHandler(display)
    logger.setLevel(logging.DEBUG)
    ticker.start()
    try:
        yield display
    finally:
        over.set()
        ticker.join()
        display.end()
        logger.removeHandler(display)
        logger.setLevel(level)
