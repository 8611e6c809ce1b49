"""From the words of a command to its arguments."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Generator

from ..nodes import DirNode
from ..process import Proc, Wait
from ..tree import Tree
from .arithmetic import ArithmeticFailed, evaluate
from .state import ShellFailed, ShellState
from .syntax import Arithmetic, Parameter, Part, Script, Substitution, Text, Word

__all__ = ["Expander", "pattern_of"]

SPECIAL = re.compile(r"([*?\[\]])")

Fields = Generator[Wait, None, list[str]]
Value = Generator[Wait, None, str]
Piece = tuple[str, bool]
"""Text, and whether it is quoted."""


class Expander:
    """Expands words; running the script of a substitution is the other half's."""

    def __init__(self, proc: Proc, state: ShellState) -> None:
        self.proc = proc
        self.state = state

    def substitute(self, script: Script) -> Value:
        """Return what a script writes to stdout."""
        raise NotImplementedError

    def fields(self, words: tuple[Word, ...]) -> Fields:
        """Return the arguments that words stand for: split, and with patterns filled in."""
        found: list[str] = []
        for word in words:
            for field in (yield from self._split(word)):
                found += self._paths(field)
        return found

    def text(self, word: Word) -> Value:
        """Return the one string that a word stands for where nothing is split."""
        pieces = yield from self.pieces(word)
        return "".join(text for text, _ in pieces)

    def pieces(self, word: Word) -> Generator[Wait, None, list[Piece]]:
        """Return the text of a word with what is quoted of it."""
        pieces: list[Piece] = []
        for index, part in enumerate(word.parts):
            if isinstance(part, Text):
                pieces.append((self._home(part, index, word), part.quoted))
            else:
                pieces.append(((yield from self._value(part)), part.quoted))
        return pieces

    def _home(self, part: Text, index: int, word: Word) -> str:
        tilde = index == 0 and not part.quoted and part.text.startswith("~")
        if tilde and (part.text[1:2] == "/" or (len(part.text) == 1 and len(word.parts) == 1)):
            return self.state.variables.get("HOME", "~") + part.text[1:]
        return part.text

    def _split(self, word: Word) -> Generator[Wait, None, list[list[Piece]]]:
        fields: list[list[Piece]] = []
        current: list[Piece] | None = None
        for index, part in enumerate(word.parts):
            if isinstance(part, Text):
                current = [*(current or []), (self._home(part, index, word), part.quoted)]
                continue
            if isinstance(part, Parameter) and part.name == "@" and part.quoted:
                for position, argument in enumerate(self.state.arguments):
                    if position and current is not None:
                        fields.append(current)
                        current = None
                    current = [*(current or []), (argument, True)]
                if not self.state.arguments and current == [("", True)] and len(word.parts) <= 3:
                    current = None  # "$@" without arguments is no argument, and not an empty one
                    break
                continue
            value = yield from self._value(part)
            if part.quoted:
                current = [*(current or []), (value, True)]
                continue
            separators = self.state.variables.get("IFS", " \t\n")
            blanks = "".join(char for char in separators if char in " \t\n")
            pieces = self._at_separators(value, separators, blanks)
            for position, piece in enumerate(pieces):
                if position and current is not None:
                    fields.append(current)
                    current = None
                if piece is not None:
                    current = [*(current or []), (piece, False)]
        if current is not None:
            fields.append(current)
        return fields

    def _at_separators(self, value: str, separators: str, blanks: str) -> list[str | None]:
        """Split a value; ``None`` stands for nothing before or after a blank."""
        if not separators:
            return [value or None]
        hard = "".join(char for char in separators if char not in blanks)
        if hard:
            strip = f"[{re.escape(blanks)}]*" if blanks else ""
            rule = f"{strip}[{re.escape(hard)}]{strip}"
            rule += f"|[{re.escape(blanks)}]+" if blanks else ""
        else:
            rule = f"[{re.escape(blanks)}]+"
        parts = re.split(rule, value)
        if parts[-1] == "" and len(parts) > 1 and hard:
            parts.pop()
        return [part if part or (hard and len(parts) > 1) else None for part in parts]

    def _paths(self, field: list[Piece]) -> list[str]:
        plain = "".join(text for text, _ in field)
        if self.state.keep_patterns or not any(
            SPECIAL.search(text) for text, quoted in field if not quoted
        ):
            return [plain]
        return glob(self.proc.tree, pattern_of(field), self.proc.cwd) or [plain]

    # --- values

    def _value(self, part: Part) -> Value:
        if isinstance(part, Substitution):
            return (yield from self.substitute(part.script)).rstrip("\n")
        if isinstance(part, Arithmetic):
            expression = yield from self.text(part.expression)
            try:
                return str(evaluate(expression, self.state.variables))
            except ArithmeticFailed as error:
                raise ShellFailed(str(error)) from None
        if isinstance(part, Parameter):
            return (yield from self._parameter(part))
        return part.text

    def _parameter(self, part: Parameter) -> Value:
        value = self.state.parameter(part.name)
        operator = part.operator
        if value is None and self.state.refuse_unset and operator in ("", "len"):
            raise ShellFailed(f"{part.name}: parameter not set")
        if operator == "":
            return value or ""
        if operator == "len":
            return str(len(value or ""))
        argument = part.argument or Word(())
        if operator[0] in "%#":
            pattern = pattern_of((yield from self.pieces(argument)))
            return trimmed(value or "", pattern, operator)
        missing = value is None or (operator[0] == ":" and value == "")
        kind = operator[-1]
        if kind == "+":
            return "" if missing else (yield from self.text(argument))
        if not missing:
            return value or ""
        text = yield from self.text(argument)
        if kind == "?":
            raise ShellFailed(f"{part.name}: {text or 'parameter not set'}")
        if kind == "=":
            self.state.variables[part.name] = text
        return text


def pattern_of(field: list[Piece]) -> str:
    """Return a pattern for `fnmatch`, in which what was quoted stands for itself."""
    return "".join(SPECIAL.sub(r"[\1]", text) if quoted else text for text, quoted in field)


def trimmed(value: str, pattern: str, operator: str) -> str:
    """Cut off what matches: the shortest or longest head (``#``) or tail (``%``)."""
    matches = re.compile(fnmatch.translate(pattern)).match
    cuts = range(len(value) + 1)
    if operator[0] == "#":
        order = cuts if operator == "#" else reversed(cuts)
        return next((value[cut:] for cut in order if matches(value[:cut])), value)
    order = reversed(cuts) if operator == "%" else cuts
    return next((value[:cut] for cut in order if matches(value[cut:])), value)


def glob(tree: Tree, pattern: str, cwd: str) -> list[str]:
    """Return the paths that match, sorted."""
    found = ["/"] if pattern.startswith("/") else [""]
    for part in [part for part in pattern.split("/") if part]:
        matches = re.compile(fnmatch.translate(part)).match
        deeper: list[str] = []
        for folder in found:
            try:
                node = tree.find(folder or ".", cwd)
            except OSError:
                continue
            if isinstance(node, DirNode):
                names = [
                    name
                    for name in node.entries
                    if matches(name) and (part[0] == "." or name[0] != ".")
                ]
                if part in (".", ".."):
                    names = [part]
                prefix = folder if folder in ("", "/") else f"{folder}/"
                deeper += [prefix + name for name in names]
        found = deeper
    return sorted(found)
