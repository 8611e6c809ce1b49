"""Commands that a shell runs itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..process import Proc, Steps, Wait
from ..programs.conditions import bracket, test
from ..programs.printing import echo, printf
from ..programs.signals import kill, signal_number
from .parser import parse
from .state import Leave, LoopJump, ReturnFrom, ShellFailed
from .syntax import Script

if TYPE_CHECKING:
    from .interpreter import Shell

__all__ = ["BUILTINS", "SPECIAL"]

SPECIAL = frozenset(
    {":", ".", "break", "continue", "eval", "exec", "exit", "export", "return", "set", "shift"}
    | {"source", "trap", "unset"}
)
"""Builtins whose failed redirection ends the shell."""

Words = tuple[str, ...]
Builtin = Callable[["Shell", Words], Steps]


def _true(shell: Shell, words: Words) -> Steps:
    yield from ()  # makes it a generator that does not wait
    return 0


def _false(shell: Shell, words: Words) -> Steps:
    yield from ()
    return 1


def _tool(tool: Callable[[Proc, Words], Steps]) -> Builtin:
    """Make a builtin of a program that needs no process of its own."""

    def run(shell: Shell, words: Words) -> Steps:
        return (yield from tool(shell.proc, words[1:]))

    return run


def _cd(shell: Shell, words: Words) -> Steps:
    target = words[1] if len(words) > 1 else shell.state.variables.get("HOME", "/")
    back = target == "-"
    if back:
        target = shell.state.variables.get("OLDPWD", shell.proc.cwd)
    try:
        shell.proc.tree.directory(target, shell.proc.cwd)
        path = shell.proc.tree.real_path(target, shell.proc.cwd)
    except OSError:
        yield from shell.complain(f"cd: can't cd to {target}")
        return 2
    shell.state.variables["OLDPWD"] = shell.proc.cwd
    shell.proc.cwd = path
    shell.state.variables["PWD"] = path
    if back:
        yield from shell.proc.write(1, f"{path}\n")
    return 0


def _pwd(shell: Shell, words: Words) -> Steps:
    yield from shell.proc.write(1, f"{shell.proc.cwd}\n")
    return 0


def _exit(shell: Shell, words: Words) -> Steps:
    yield from ()
    raise Leave(_number(words, shell.state.status) & 0xFF)


def _return(shell: Shell, words: Words) -> Steps:
    yield from ()
    raise ReturnFrom(_number(words, shell.state.status) & 0xFF)


def _break(shell: Shell, words: Words) -> Steps:
    yield from ()
    raise LoopJump(max(1, _number(words, 1)), again=words[0] == "continue")


def _number(words: Words, default: int) -> int:
    if len(words) < 2:
        return default
    if not words[1].lstrip("-").isdigit():
        raise ShellFailed(f"{words[0]}: Illegal number: {words[1]}")
    return int(words[1])


def _export(shell: Shell, words: Words) -> Steps:
    if words[1:] in ((), ("-p",)):
        for name, value in sorted(shell.state.env.items()):
            yield from shell.proc.write(1, f"export {name}='{value}'\n")
        return 0
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not name.isidentifier():
            raise ShellFailed(f"{words[0]}: {word}: bad variable name")
        if equals:
            shell.state.variables[name] = value
        shell.state.exported.add(name)
    return 0


def _local(shell: Shell, words: Words) -> Steps:
    yield from ()
    state = shell.state
    if not state.locals:
        raise ShellFailed("local: not in a function")
    for word in words[1:]:
        name, equals, value = word.partition("=")
        state.locals[-1].setdefault(name, state.variables.get(name))
        state.variables[name] = value if equals else state.variables.get(name, "")
    return 0


def _unset(shell: Shell, words: Words) -> Steps:
    yield from ()
    for word in words[1:]:
        shell.state.variables.pop(word, None)
        shell.state.exported.discard(word)
        if words[1] == "-f":
            shell.state.functions.pop(word, None)
    return 0


LONG_OPTIONS = {"errexit": "e", "noglob": "f", "nounset": "u", "pipefail": "P", "xtrace": "x"}
OPTIONS = {
    "e": "leave_on_error",
    "f": "keep_patterns",
    "P": "pipe_fails",
    "u": "refuse_unset",
    "x": "trace",
}


def _set(shell: Shell, words: Words) -> Steps:
    rest = list(words[1:])
    while rest and len(rest[0]) > 1 and rest[0][0] in "-+" and rest[0] != "--":
        option = rest.pop(0)
        on = option[0] == "-"
        letters = option[1:]
        if letters == "o" and rest:
            letters = LONG_OPTIONS.get(rest.pop(0), "?")
        for letter in letters:
            if letter not in OPTIONS:
                yield from shell.complain(f"set: the fake's shell has no option {option}")
                return 2
            setattr(shell.state, OPTIONS[letter], on)
    if rest:
        shell.state.arguments = tuple(rest[1:] if rest[0] == "--" else rest)
    return 0


def _shift(shell: Shell, words: Words) -> Steps:
    yield from ()
    count = _number(words, 1)
    if not 0 <= count <= len(shell.state.arguments):
        raise ShellFailed("shift: can't shift that many")
    shell.state.arguments = shell.state.arguments[count:]
    return 0


def _read(shell: Shell, words: Words) -> Steps:
    names = [word for word in words[1:] if word != "-r"] or ["REPLY"]
    line = bytearray()
    ended = True
    while byte := (yield from shell.proc.read(0, 1)):
        if byte == b"\n":
            ended = False
            break
        line += byte
    text = os.fsdecode(bytes(line)).strip(" \t")
    for name in names[:-1]:
        head, _, text = text.partition(" ")
        shell.state.variables[name] = head
        text = text.lstrip(" ")
    shell.state.variables[names[-1]] = text
    return int(ended)


def _wait(shell: Shell, words: Words) -> Steps:
    wanted = [int(word) for word in words[1:] if word.isdigit()] or list(shell.children)
    status = 0
    proc = shell.proc
    for pid in wanted:
        child = shell.children.get(pid)
        if child is None:
            status = 127
            continue
        yield from proc.block(Wait(_ended_or_told(child, proc)))
        if proc.pending:
            return 128 + proc.pending[0]
        status = child.status or 0
        del shell.children[pid]
    return status if len(words) > 1 else 0


def _ended_or_told(child: Proc, proc: Proc) -> Callable[[], bool]:
    return lambda: child.status is not None or bool(proc.pending)


def _trap(shell: Shell, words: Words) -> Steps:
    if len(words) < 3:
        return 0
    action, names = words[1], words[2:]
    script: Script | None = None if action in ("", "-") else parse(action)
    for name in names:
        number = 0 if name in ("EXIT", "0") else signal_number(name)
        if number is None:
            yield from shell.complain(f"trap: {name}: bad trap")
            return 1
        shell.state.traps.pop(number, None)
        shell.proc.trapped.discard(number)
        shell.proc.ignored.discard(number)
        if script is not None:
            shell.state.traps[number] = script
            if number:
                shell.proc.trapped.add(number)
        elif action == "" and number not in (0, signal.SIGKILL, signal.SIGSTOP):
            shell.proc.ignored.add(number)
    return 0


def _exec(shell: Shell, words: Words) -> Steps:
    raise Leave((yield from shell.execute(shell.proc, words[1:], shell.state.env)))


def _eval(shell: Shell, words: Words) -> Steps:
    return (yield from shell.run(parse(" ".join(words[1:]))))


def _source(shell: Shell, words: Words) -> Steps:
    try:
        node = shell.proc.tree.file(words[1], shell.proc.cwd)
    except (IndexError, OSError):
        raise ShellFailed(f".: cannot open {words[1] if len(words) > 1 else ''}") from None
    return (yield from shell.run(parse(os.fsdecode(bytes(node.data)))))


def _command(shell: Shell, words: Words) -> Steps:
    rest = words[1:]
    if rest[:1] in (("-v",), ("-V",)):
        return (yield from _found(shell, rest[1:], said=False))
    if not rest:
        return 0
    builtin = BUILTINS.get(rest[0])
    if builtin is not None:
        return (yield from builtin(shell, rest))
    child = shell.proc.fork(lambda proc: shell.execute(proc, rest, shell.state.env), rest)
    return (yield from shell.proc.wait_for(child))


def _type(shell: Shell, words: Words) -> Steps:
    return (yield from _found(shell, words[1:], said=True))


def _found(shell: Shell, names: Words, *, said: bool) -> Steps:
    status = 0
    for name in names:
        if name in shell.state.functions or name in BUILTINS:
            yield from shell.proc.write(1, f"{name} is a shell builtin\n" if said else f"{name}\n")
            continue
        folders = shell.state.env.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":")
        places = [f"{folder}/{name}" for folder in folders]
        place = next((place for place in places if _exists(shell, place)), None)
        if place is not None:
            yield from shell.proc.write(1, f"{name} is {place}\n" if said else f"{place}\n")
            continue
        status = 127
        if said:
            yield from shell.proc.write(1, f"{name}: not found\n")
    return status


def _exists(shell: Shell, path: str) -> bool:
    try:
        shell.proc.tree.find(path)
    except OSError:
        return False
    return True


def _umask(shell: Shell, words: Words) -> Steps:
    yield from shell.proc.write(1, "0022\n")
    return 0 if len(words) == 1 else 1


BUILTINS: Mapping[str, Builtin] = {
    ":": _true,
    ".": _source,
    "[": _tool(bracket),
    "break": _break,
    "cd": _cd,
    "command": _command,
    "continue": _break,
    "echo": _tool(echo),
    "eval": _eval,
    "exec": _exec,
    "exit": _exit,
    "export": _export,
    "false": _false,
    "kill": _tool(kill),
    "local": _local,
    "printf": _tool(printf),
    "pwd": _pwd,
    "read": _read,
    "return": _return,
    "set": _set,
    "shift": _shift,
    "source": _source,
    "test": _tool(test),
    "trap": _trap,
    "true": _true,
    "type": _type,
    "umask": _umask,
    "unset": _unset,
    "wait": _wait,
}
