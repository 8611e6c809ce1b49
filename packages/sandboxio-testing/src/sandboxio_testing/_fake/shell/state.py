"""What a shell remembers, and how a script leaves its path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .syntax import Function, Script

__all__ = ["Leave", "LoopJump", "ReturnFrom", "ShellFailed", "ShellState"]


class Leave(Exception):
    """The shell exits."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class ReturnFrom(Exception):
    """A function returns."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class LoopJump(Exception):
    """``break`` or ``continue``, out of so many loops."""

    def __init__(self, levels: int, *, again: bool) -> None:
        super().__init__(levels)
        self.levels = levels
        self.again = again


class ShellFailed(Exception):
    """The script cannot go on; the message is for stderr."""


@dataclass
class ShellState:
    """Variables and all else that a subshell gets a copy of."""

    name: str
    pid: int
    variables: dict[str, str]
    exported: set[str]
    arguments: tuple[str, ...] = ()
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    traps: dict[int, Script] = field(default_factory=dict[int, Script])
    status: int = 0
    last_background: int | None = None
    leave_on_error: bool = False
    refuse_unset: bool = False
    keep_patterns: bool = False
    trace: bool = False
    pipe_fails: bool = False
    conditions: int = 0
    """How many conditions are being tried, in which a failure is no error."""

    locals: list[dict[str, str | None]] = field(default_factory=list[dict[str, str | None]])
    """What the variables were that each function under way has made its own."""

    @classmethod
    def fresh(cls, name: str, pid: int, env: Mapping[str, str]) -> ShellState:
        """Return the state of a shell that has just started."""
        return cls(name, pid, dict(env), set(env))

    def copy(self) -> ShellState:
        """Return the state of a subshell; traps are not handed on."""
        return replace(
            self,
            variables=dict(self.variables),
            exported=set(self.exported),
            functions=dict(self.functions),
            traps={},
            locals=[dict(level) for level in self.locals],
        )

    @property
    def env(self) -> dict[str, str]:
        """What a program that is started gets."""
        return {name: self.variables[name] for name in self.exported if name in self.variables}

    def parameter(self, name: str) -> str | None:
        """Return the value of a variable or a special parameter."""
        if name.isdigit():
            position = int(name)
            if position == 0:
                return self.name
            return self.arguments[position - 1] if position <= len(self.arguments) else None
        special = {
            "?": str(self.status),
            "$": str(self.pid),
            "#": str(len(self.arguments)),
            "-": "e" * self.leave_on_error + "f" * self.keep_patterns + "u" * self.refuse_unset,
            "@": " ".join(self.arguments),
            "*": " ".join(self.arguments),
            "!": "" if self.last_background is None else str(self.last_background),
        }
        return special[name] if name in special else self.variables.get(name)
