"""What a shell script is made of, once it is parsed."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "AndOr",
    "Arithmetic",
    "Case",
    "Command",
    "For",
    "Function",
    "Group",
    "If",
    "Loop",
    "Parameter",
    "Part",
    "Pipeline",
    "Redirect",
    "Script",
    "ShellSyntaxError",
    "Simple",
    "Substitution",
    "Text",
    "Word",
]


class ShellSyntaxError(Exception):
    """A script that is not one, or that uses what the fake's shell does not know."""


@dataclass(frozen=True)
class Text:
    """Characters; quoted ones are neither split nor taken for a pattern."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class Parameter:
    """``$name`` or ``${name<operator>argument}``; the operator ``len`` stands for ``${#name}``."""

    name: str
    operator: str
    argument: Word | None
    quoted: bool


@dataclass(frozen=True)
class Substitution:
    """``$(script)``."""

    script: Script
    quoted: bool


@dataclass(frozen=True)
class Arithmetic:
    """``$((expression))``."""

    expression: Word
    quoted: bool


Part = Text | Parameter | Substitution | Arithmetic


@dataclass(frozen=True)
class Word:
    """What is between two blanks."""

    parts: tuple[Part, ...]

    @property
    def literal(self) -> str | None:
        """The text of a word without any expansion."""
        if all(isinstance(part, Text) for part in self.parts):
            return "".join(part.text for part in self.parts if isinstance(part, Text))
        return None


@dataclass
class Redirect:
    """``fd operator target``; the target of a here-document is its content."""

    fd: int
    operator: str
    target: Word


@dataclass(frozen=True)
class Simple:
    """Assignments, words and redirections."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


@dataclass(frozen=True)
class Group:
    """``{ …; }`` or, in a process of its own, ``( … )``."""

    body: Script
    subshell: bool
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True)
class If:
    """Conditions with their bodies, and what is done otherwise."""

    branches: tuple[tuple[Script, Script], ...]
    otherwise: Script | None
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True)
class Loop:
    """``while``, or ``until`` if it ends when the condition is true."""

    condition: Script
    body: Script
    until: bool
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True)
class For:
    """``for name in words``; without words, the arguments."""

    name: str
    words: tuple[Word, ...] | None
    body: Script
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True)
class Case:
    """``case subject in pattern) body ;; esac``."""

    subject: Word
    branches: tuple[tuple[tuple[Word, ...], Script], ...]
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True)
class Function:
    """``name() body``."""

    name: str
    body: Command
    redirects: tuple[Redirect, ...] = ()


Command = Simple | Group | If | Loop | For | Case | Function


@dataclass(frozen=True)
class Pipeline:
    """Commands joined by ``|``; a negated one turns success and failure round."""

    commands: tuple[Command, ...]
    negated: bool


@dataclass(frozen=True)
class AndOr:
    """Pipelines joined by ``&&`` and ``||``; the first operator is empty."""

    items: tuple[tuple[str, Pipeline], ...]
    background: bool


@dataclass(frozen=True)
class Script:
    """Commands, one after the other."""

    items: tuple[AndOr, ...] = field(default=())
