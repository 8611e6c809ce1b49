"""What a test says that commands and code do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandboxio.errors import ConfigurationError
from sandboxio.models import ExecResult, OutputChunk

from .calls import Call
from .process import Proc, Program, Steps

__all__ = ["Match", "Returns", "Script", "Scripts", "acted", "check_result"]

Match = str | re.Pattern[str] | Callable[[Call], bool]
"""A part of the command or code, a pattern to be found in it, or a predicate on the call."""

Returns = ExecResult | Callable[[Call], ExecResult]
"""What it answers, or what makes the answer."""


@dataclass
class Script:
    """One thing that was said."""

    op: str
    match: Match
    returns: Returns | None
    chunks: tuple[OutputChunk | float, ...]
    exit_code: int
    raises: BaseException | None
    hangs: bool
    takes: float
    left: int | None

    def fits(self, call: Call) -> bool:
        """Whether it is about this call."""
        if call.op != self.op or self.left == 0:
            return False
        text = call.code if call.code is not None else call.command
        if isinstance(self.match, str):
            return self.match in text
        if isinstance(self.match, re.Pattern):
            return self.match.search(text) is not None
        return bool(self.match(call))


class Scripts:
    """All that was said; the last word counts."""

    def __init__(self) -> None:
        self._scripts: list[Script] = []

    def add(
        self,
        op: str,
        *,
        match: Match,
        returns: Returns | None = None,
        chunks: Sequence[OutputChunk | str | bytes | float] | None = None,
        exit_code: int = 0,
        raises: BaseException | None = None,
        hangs: bool = False,
        takes: float = 0,
        times: int | None = None,
        rich: bool = False,
    ) -> None:
        """Take in what a test says."""
        what = f"on_{op}()"
        if not (isinstance(match, str | re.Pattern) or callable(match)):
            raise ConfigurationError(f"{what}: match must be a text, a pattern or a function.")
        said = [returns is not None, chunks is not None, raises is not None, hangs]
        if sum(said) != 1:
            raise ConfigurationError(
                f"{what} needs exactly one answer.",
                hint="Pass one of: " + ", ".join(_ANSWERS[op]) + ".",
            )
        if raises is not None and not isinstance(raises, Exception):
            raise ConfigurationError(f"{what}: raises must be an instance of an Exception.")
        if takes < 0 or (times is not None and times < 1):
            raise ConfigurationError(f"{what}: takes must not be below 0, nor times below 1.")
        if returns is not None and not callable(returns):
            check_result(returns, what, rich=rich)
        pieces = tuple(_piece(piece, what) for piece in chunks or ())
        script = Script(op, match, returns, pieces, exit_code, raises, hangs, takes, times)
        self._scripts.insert(0, script)

    def find(self, call: Call) -> Script | None:
        """Return what was said about a call, and count it as used."""
        for script in self._scripts:
            if script.fits(call):
                if script.left is not None:
                    script.left -= 1
                return script
        return None


_ANSWERS = {
    "run": ("returns=", "raises=", "hangs=True"),
    "run_code": ("returns=", "raises=", "hangs=True"),
    "stream": ("returns=", "chunks=", "raises=", "hangs=True"),
}


def check_result(result: object, what: str, *, rich: bool) -> ExecResult:
    """Refuse a result that no backend of these capabilities could give."""
    if not isinstance(result, ExecResult):
        raise ConfigurationError(f"{what}: the answer must be an ExecResult, not {result!r:.40}.")
    if not 0 <= result.exit_code <= 255:
        raise ConfigurationError(f"{what}: an exit code is between 0 and 255.")
    if result.results is not None and not rich:
        raise ConfigurationError(
            f"{what}: this fake has no rich results.",
            hint="They belong to run_code() with Capability.STATEFUL_CODE.",
        )
    return result


def _piece(piece: OutputChunk | str | bytes | float, what: str) -> OutputChunk | float:
    if isinstance(piece, OutputChunk):
        return piece
    if isinstance(piece, str | bytes):
        return OutputChunk("stdout", piece.encode() if isinstance(piece, str) else piece)
    if is_pause(piece):
        return float(piece)
    raise ConfigurationError(
        f"{what}: a chunk is an OutputChunk, text, or a pause in seconds, not {piece!r:.40}."
    )


def is_pause(piece: object) -> bool:
    return isinstance(piece, int | float) and not isinstance(piece, bool) and piece >= 0


def acted(script: Script, result: ExecResult | None) -> Program:
    """Return a program that does what was said."""

    def program(proc: Proc) -> Steps:
        yield from proc.sleep(script.takes)
        if script.hangs:
            yield from proc.sleep(float("inf"))
        if result is not None:
            yield from proc.write(1, result.stdout)
            yield from proc.write(2, result.stderr)
            return result.exit_code
        for piece in script.chunks:
            if isinstance(piece, OutputChunk):
                yield from proc.write(1 if piece.stream == "stdout" else 2, piece.data)
            else:
                yield from proc.sleep(piece)
        return script.exit_code

    return program
