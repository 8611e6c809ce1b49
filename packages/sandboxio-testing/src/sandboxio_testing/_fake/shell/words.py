"""Words of a shell script: quotes, parameters and substitutions."""

from __future__ import annotations

import re

from .syntax import (
    Arithmetic,
    Parameter,
    Part,
    Script,
    ShellSyntaxError,
    Substitution,
    Text,
    Word,
)

__all__ = ["WordParser"]

PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[?$!#@*-]")
BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[?$!#@*-])(:?[-=+?]|%%?|##?)?")
META = " \t\n;&|()<>"
TOO_DEEP = 50
"""Nested substitutions beyond which a script is refused rather than parsed."""


class WordParser:
    """Reads words; `script`, which a substitution needs, is the other half's."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._depth = 0

    def script(self) -> Script:
        """Parse commands until something ends them that the caller knows."""
        raise NotImplementedError

    def nested(self, text: str) -> Script:
        """Parse a script that stands by itself."""
        raise NotImplementedError

    def word(self) -> Word | None:
        """Read a word; ``None`` if there is none here."""
        return self._word_until(META)

    def _word_until(self, stop: str) -> Word | None:
        start = self.at
        parts: list[Part] = []
        plain: list[str] = []

        def flush() -> None:
            if plain:
                parts.append(Text("".join(plain), False))
                plain.clear()

        while self.at < len(self.text):
            char = self.text[self.at]
            if char in stop:
                break
            if char == "\\":
                follower = self.text[self.at + 1 : self.at + 2]
                self.at += 1 + len(follower)
                if follower != "\n":
                    flush()
                    parts.append(Text(follower or "\\", True))
            elif char == "'":
                flush()
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    raise ShellSyntaxError("Syntax error: Unterminated quoted string")
                parts.append(Text(self.text[self.at + 1 : end], True))
                self.at = end + 1
            elif char == '"':
                flush()
                self.at += 1
                parts += [Text("", True), *self.double_quoted()]
            elif char in "$`":
                flush()
                parts.append(self._dollar(quoted=False))
            else:
                plain.append(char)
                self.at += 1
        flush()
        return Word(tuple(parts)) if self.at > start else None

    def double_quoted(self, *, heredoc: bool = False) -> list[Part]:
        """Read to the closing quote, or all there is of a here-document."""
        parts: list[Part] = []
        plain: list[str] = []
        while True:
            if self.at >= len(self.text):
                if heredoc:
                    break
                raise ShellSyntaxError("Syntax error: Unterminated quoted string")
            char = self.text[self.at]
            if char == '"' and not heredoc:
                self.at += 1
                break
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                follower = self.text[self.at + 1]
                plain.append({"\n": ""}.get(follower, follower))
                self.at += 2
            elif char in "$`":
                parts.append(Text("".join(plain), True))
                plain.clear()
                parts.append(self._dollar(quoted=True))
            else:
                plain.append(char)
                self.at += 1
        parts.append(Text("".join(plain), True))
        return parts

    def _dollar(self, *, quoted: bool) -> Part:
        self._depth += 1
        if self._depth > TOO_DEEP:
            raise ShellSyntaxError("Syntax error: nested too deep")
        try:
            return self._expansion(quoted)
        finally:
            self._depth -= 1

    def _expansion(self, quoted: bool) -> Part:
        if self.text[self.at] == "`":
            return self._backquotes(quoted)
        if self.text.startswith("$((", self.at):
            return self._arithmetic(quoted)
        if self.text.startswith("$(", self.at):
            self.at += 2
            script = self.script()
            if not self.text.startswith(")", self.at):
                raise ShellSyntaxError('Syntax error: end of file unexpected (expecting ")")')
            self.at += 1
            return Substitution(script, quoted)
        if self.text.startswith("${", self.at):
            return self._braced(quoted)
        self.at += 1
        match = PARAMETER.match(self.text, self.at)
        if match is None:
            return Text("$", quoted)
        self.at = match.end()
        return Parameter(match[0], "", None, quoted)

    def _braced(self, quoted: bool) -> Part:
        self.at += 2
        length = self.text.startswith("#", self.at) and not self.text.startswith("#}", self.at)
        self.at += length
        match = BRACED.match(self.text, self.at)
        if match is None:
            raise ShellSyntaxError("Syntax error: Bad substitution")
        self.at = match.end()
        operator = "len" if length else (match[2] or "")
        argument = self._word_until("}") if match[2] and not length else None
        if not self.text.startswith("}", self.at):
            raise ShellSyntaxError("Syntax error: Bad substitution")
        self.at += 1
        return Parameter(match[1], operator, argument or Word(()), quoted)

    def _backquotes(self, quoted: bool) -> Part:
        self.at += 1
        inner: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != "`":
            if self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] in (
                "`",
                "\\",
                "$",
            ):
                self.at += 1
            inner.append(self.text[self.at])
            self.at += 1
        if self.at >= len(self.text):
            raise ShellSyntaxError("Syntax error: EOF in backquote substitution")
        self.at += 1
        return Substitution(self.nested("".join(inner)), quoted)

    def _arithmetic(self, quoted: bool) -> Part:
        self.at += 3
        parts: list[Part] = []
        plain: list[str] = []
        depth = 0
        while True:
            if self.at >= len(self.text):
                raise ShellSyntaxError("Syntax error: Missing '))'")
            char = self.text[self.at]
            if depth == 0 and self.text.startswith("))", self.at):
                self.at += 2
                break
            if char in "$`":
                parts.append(Text("".join(plain), True))
                plain.clear()
                parts.append(self._dollar(quoted=True))
                continue
            depth += {"(": 1, ")": -1}.get(char, 0)
            plain.append(char)
            self.at += 1
        parts.append(Text("".join(plain), True))
        return Arithmetic(Word(tuple(parts)), quoted)
