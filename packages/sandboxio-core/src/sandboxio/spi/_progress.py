"""How far something is that takes long, as an adapter logs it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

__all__ = ["Progress"]

ATTRIBUTE = "sandboxio_progress"
"""Attribute of a log record that holds it."""

MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far something is that takes long, such as the pull of an image.

    It travels in a log record, so nobody has to listen, and a program without a terminal has it in
    its log. On a terminal, the command line shows a bar.

    Attributes:
        what: What it is, as the beginning of a sentence.
        done: Bytes that are done.
        total: Bytes that there are; ``None`` as long as that is not known.
        over: Whether it has ended, well or not.

    Example:
        >>> from sandboxio.spi import Progress
        >>> str(Progress(what="Pulling the image python:3.12", done=58_000_000, total=130_000_000))
        'Pulling the image python:3.12: 58 of 130 MB'
    """

    what: str
    done: int = 0
    total: int | None = None
    over: bool = False

    def __str__(self) -> str:
        if self.over:
            return f"{self.what}: over"
        if self.total is None:
            return f"{self.what}: {self.done // MEGABYTE} MB" if self.done else f"{self.what}."
        return f"{self.what}: {self.done // MEGABYTE} of {self.total // MEGABYTE} MB"

    def log(self, logger: logging.Logger, level: int = logging.INFO) -> None:
        """Log it: at INFO a few times a minute, at DEBUG as often as a bar may move."""
        logger.log(level, "%s", self, extra={ATTRIBUTE: self})

    @classmethod
    def in_record(cls, record: logging.LogRecord) -> Progress | None:
        """Return what a log record holds, if it holds one."""
        found = getattr(record, ATTRIBUTE, None)
        return found if isinstance(found, cls) else None
