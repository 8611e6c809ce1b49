"""The options of the fake's programs: one that is not known is refused, never ignored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..process import Proc, Program, Steps

__all__ = ["Options", "Tool", "Unknown", "options", "program"]

Tool = Callable[[Proc, tuple[str, ...]], Steps]
"""A program as a function of its arguments, without its own name."""


class Unknown(Exception):
    """What the program was asked for is beyond the fake; the message is for stderr."""


@dataclass
class Options:
    """Arguments, taken apart."""

    flags: set[str] = field(default_factory=set[str])
    values: dict[str, str] = field(default_factory=dict[str, str])
    rest: list[str] = field(default_factory=list[str])


def options(
    name: str,
    args: tuple[str, ...],
    *,
    flags: str = "",
    values: str = "",
    long: dict[str, str] | None = None,
    negative_numbers: bool = False,
    stop_at_first: bool = False,
) -> Options:
    """Take arguments apart.

    Args:
        name: The program, for the message.
        args: Without the program's name.
        flags: Letters that stand alone.
        values: Letters that a value follows.
        long: Long options, and the letter that each stands for.
        negative_numbers: Whether ``-5`` is an argument.
        stop_at_first: Whether options end with the first argument.

    Raises:
        Unknown: An option is none of these.
    """
    found = Options()
    todo = list(args)
    while todo:
        arg = todo.pop(0)
        if arg == "--":
            found.rest += todo
            break
        if arg.startswith("--") and long is not None:
            option, equals, value = arg[2:].partition("=")
            letter = long.get(option, "")
            if letter and letter in values:
                found.values[letter] = value if equals else _next(name, arg, todo)
            elif letter and not equals:
                found.flags.add(letter)
            else:
                raise Unknown(f"the fake's {name} has no option {arg}")
        elif arg[:1] != "-" or arg == "-" or (negative_numbers and arg[1:].isdigit()):
            found.rest.append(arg)
            if stop_at_first:
                found.rest += todo
                break
        else:
            _letters(name, arg, todo, flags, values, found)
    return found


def _letters(name: str, arg: str, todo: list[str], flags: str, values: str, found: Options) -> None:
    letters = arg[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter in values:
            found.values[letter] = letters or _next(name, arg, todo)
            return
        if letter not in flags:
            raise Unknown(f"the fake's {name} has no option {arg}")
        found.flags.add(letter)


def _next(name: str, option: str, todo: list[str]) -> str:
    if not todo:
        raise Unknown(f"{name}: option {option} needs a value")
    return todo.pop(0)


def program(tool: Tool) -> Program:
    """Make a program of a tool: what is beyond it ends with status 2, and says so."""

    def run(proc: Proc) -> Steps:
        try:
            return (yield from tool(proc, proc.argv[1:]))
        except Unknown as error:
            return (yield from proc.complain(str(error), 2))

    return run
