"""From the text of a shell script to what it is made of."""

from __future__ import annotations

import re

from .syntax import (
    AndOr,
    Case,
    Command,
    For,
    Function,
    Group,
    If,
    Loop,
    Pipeline,
    Redirect,
    Script,
    ShellSyntaxError,
    Simple,
    Text,
    Word,
)
from .words import WordParser

__all__ = ["parse"]

OPERATORS = ("&&", "||", ";;", ";", "&", "|", "(", ")")
REDIRECT = re.compile(r"(\d*)(<<-|<<|>>|>&|<&|>\||<|>)")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
PLAIN = re.compile(r"[^\s;&|()<>\"'\\$`#]+(?=[\s;&|()<>]|$)")
RESERVED = frozenset(
    "if then elif else fi while until for do done case esac { } ! in".split()  # noqa: SIM905
)


def parse(text: str) -> Script:
    """Parse a script.

    Raises:
        ShellSyntaxError: It is not one.
    """
    parser = Parser(text)
    script = parser.script()
    if parser.more():
        raise parser.unexpected()
    return script


class Parser(WordParser):
    """A recursive descent through the text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._heredocs: list[tuple[Redirect, str, bool, bool]] = []

    def nested(self, text: str) -> Script:
        """Parse the script of a substitution in backquotes."""
        return parse(text)

    def more(self) -> bool:
        """Whether anything but blanks is left."""
        self._blanks(newlines=True)
        return self.at < len(self.text)

    def unexpected(self) -> ShellSyntaxError:
        """Say what is in the way."""
        if self.at >= len(self.text):
            return ShellSyntaxError("Syntax error: end of file unexpected")
        found = self._operator() or self._plain() or self.text[self.at]
        return ShellSyntaxError(f'Syntax error: "{found}" unexpected')

    # --- blanks and operators

    def _blanks(self, *, newlines: bool = False) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif char == "\n" and newlines:
                self._newline()
            else:
                return

    def _newline(self) -> None:
        self.at += 1
        heredocs, self._heredocs = self._heredocs, []
        for redirect, delimiter, strip, quoted in heredocs:
            lines: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = min(end + 1, len(self.text))
                line = line.lstrip("\t") if strip else line
                if line == delimiter:
                    break
                lines.append(line + "\n")
            body = "".join(lines)
            if quoted:
                redirect.target = Word((Text(body, True),))
            else:
                redirect.target = Word(tuple(Parser(body).double_quoted(heredoc=True)))

    def _operator(self) -> str:
        for operator in OPERATORS:
            if self.text.startswith(operator, self.at):
                return operator
        return ""

    def _take(self, operator: str) -> bool:
        self._blanks()
        if self._operator() != operator:
            return False
        self.at += len(operator)
        return True

    def _plain(self) -> str:
        match = PLAIN.match(self.text, self.at)
        return match[0] if match else ""

    def _reserved(self) -> str:
        plain = self._plain()
        return plain if plain in RESERVED else ""

    def _expect(self, word: str) -> None:
        self._blanks(newlines=True)
        if self._plain() != word:
            raise self.unexpected()
        self.at += len(word)

    # --- lists

    def script(self) -> Script:
        """Parse commands until something ends them that the caller knows."""
        items: list[AndOr] = []
        while self.more():
            if self._operator() in (")", ";;") or self._reserved() in _ENDS:
                break
            and_or = self._and_or()
            background = self._take("&")
            ended = background or self._take(";")
            items.append(AndOr(and_or, background))
            self._blanks()
            newline = self.at < len(self.text) and self.text[self.at] == "\n"
            if not ended and not newline:
                break
        return Script(tuple(items))

    def _and_or(self) -> tuple[tuple[str, Pipeline], ...]:
        items = [("", self._pipeline())]
        while True:
            for operator in ("&&", "||"):
                if self._take(operator):
                    self._blanks(newlines=True)
                    items.append((operator, self._pipeline()))
                    break
            else:
                return tuple(items)

    def _pipeline(self) -> Pipeline:
        self._blanks()
        negated = False
        while self._reserved() == "!":
            self.at += 1
            negated = not negated
            self._blanks()
        commands = [self._command()]
        while self._take("|"):
            self._blanks(newlines=True)
            commands.append(self._command())
        return Pipeline(tuple(commands), negated)

    # --- commands

    def _command(self) -> Command:
        self._blanks()
        if self._take("("):
            return Group(self._until_parenthesis(), True, self._redirects())
        word = self._reserved()
        if word == "{":
            self.at += 1
            body = self._body("}")
            return Group(body, False, self._redirects())
        if word == "if":
            return self._if()
        if word in ("while", "until"):
            self.at += len(word)
            condition = self._body("do")
            return Loop(condition, self._body("done"), word == "until", self._redirects())
        if word == "for":
            return self._for()
        if word == "case":
            return self._case()
        if word:
            raise self.unexpected()
        return self._simple()

    def _until_parenthesis(self) -> Script:
        body = self.script()
        self._blanks(newlines=True)
        if not self._take(")"):
            raise self.unexpected()
        return body

    def _body(self, end: str) -> Script:
        body = self.script()
        if not body.items:
            self._blanks(newlines=True)
            raise self.unexpected()
        self._expect(end)
        return body

    def _if(self) -> If:
        branches: list[tuple[Script, Script]] = []
        otherwise: Script | None = None
        self.at += len("if")
        while True:
            condition = self._body("then")
            body = self.script()
            branches.append((condition, body))
            self._blanks(newlines=True)
            if self._plain() == "elif":
                self.at += len("elif")
                continue
            if self._plain() == "else":
                self.at += len("else")
                otherwise = self.script()
            self._expect("fi")
            return If(tuple(branches), otherwise, self._redirects())

    def _for(self) -> For:
        self.at += len("for")
        self._blanks()
        match = NAME.match(self.text, self.at)
        if match is None:
            raise self.unexpected()
        self.at = match.end()
        self._blanks(newlines=True)
        words: list[Word] | None = None
        if self._plain() == "in":
            self.at += len("in")
            words = []
            self._blanks()
            while (word := self.word()) is not None:
                words.append(word)
                self._blanks()
        self._take(";")
        self._expect("do")
        body = self._body("done")
        return For(match[0], None if words is None else tuple(words), body, self._redirects())

    def _case(self) -> Case:
        self.at += len("case")
        self._blanks()
        subject = self.word()
        if subject is None:
            raise self.unexpected()
        self._expect("in")
        branches: list[tuple[tuple[Word, ...], Script]] = []
        while True:
            self._blanks(newlines=True)
            if self._plain() == "esac":
                self.at += len("esac")
                return Case(subject, tuple(branches), self._redirects())
            self._take("(")
            patterns: list[Word] = []
            while True:
                self._blanks()
                pattern = self.word()
                if pattern is None:
                    raise self.unexpected()
                patterns.append(pattern)
                if not self._take("|"):
                    break
            if not self._take(")"):
                raise self.unexpected()
            branches.append((tuple(patterns), self.script()))
            self._blanks(newlines=True)
            if not self._take(";;") and self._plain() != "esac":
                raise self.unexpected()

    def _simple(self) -> Command:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self._blanks()
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            match = ASSIGNMENT.match(self.text, self.at)
            if match and not words:
                self.at = match.end()
                assignments.append((match[1], self.word() or Word(())))
                continue
            word = self.word()
            if word is None:
                break
            if not words and not assignments and self._operator() == "(" and word.literal:
                return self._function(word.literal)
            words.append(word)
        if not (assignments or words or redirects):
            raise self.unexpected()
        return Simple(tuple(assignments), tuple(words), tuple(redirects))

    def _function(self, name: str) -> Function:
        if not (self._take("(") and self._take(")")):
            raise self.unexpected()
        self._blanks(newlines=True)
        return Function(name, self._command())

    # --- redirections

    def _redirects(self) -> tuple[Redirect, ...]:
        found: list[Redirect] = []
        while True:
            self._blanks()
            redirect = self._redirect()
            if redirect is None:
                return tuple(found)
            found.append(redirect)

    def _redirect(self) -> Redirect | None:
        match = REDIRECT.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        operator = match[2]
        fd = int(match[1]) if match[1] else int(operator[0] == ">")
        self._blanks()
        start = self.at
        word = self.word()
        if word is None:
            raise self.unexpected()
        redirect = Redirect(fd, operator, word)
        if operator in ("<<", "<<-"):
            raw = self.text[start : self.at]
            quoted = any(char in raw for char in "\"'\\")
            delimiter = word.literal if word.literal is not None else raw
            redirect.operator = "<<"
            redirect.target = Word(())
            self._heredocs.append((redirect, delimiter, operator == "<<-", quoted))
        return redirect


_ENDS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
