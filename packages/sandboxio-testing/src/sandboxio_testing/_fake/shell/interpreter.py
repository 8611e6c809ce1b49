"""Runs a parsed script as a simulated process."""

from __future__ import annotations

import errno
import fnmatch
import re
from collections.abc import Callable, Generator

from ..handles import Handle, open_node, pipe
from ..nodes import fail
from ..process import Effect, Missing, Proc, Steps, Wait
from .builtins import BUILTINS, SPECIAL
from .expansion import Expander, pattern_of
from .parser import parse
from .state import Leave, LoopJump, ReturnFrom, ShellFailed, ShellState
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
)

__all__ = ["Shell", "run_shell"]

DEEPEST = 100
"""Calls of functions within each other, beyond which a script fails instead of the fake."""


def run_shell(proc: Proc, source: str, name: str, arguments: tuple[str, ...]) -> Steps:
    """Run a script from its text; the exit code is the shell's."""
    state = ShellState.fresh(name, proc.pid, proc.env)
    state.variables["PWD"] = proc.cwd
    state.arguments = arguments
    return (yield from Shell(proc, state).main(lambda shell: shell.run(parse(source))))


class Shell(Expander):
    """A shell, in its process."""

    def __init__(self, proc: Proc, state: ShellState, depth: int = 0) -> None:
        super().__init__(proc, state)
        self.children: dict[int, Proc] = {}
        self._depth = depth

    def main(self, body: Callable[[Shell], Steps]) -> Steps:
        """Run a whole shell or subshell, and the trap for its exit."""
        try:
            status = yield from body(self)
        except Leave as leave:
            status = leave.status
        except ReturnFrom as done:
            status = done.status
        except LoopJump:
            status = self.state.status
        except (ShellFailed, ShellSyntaxError) as error:
            yield from self.complain(str(error))
            status = 2
        except RecursionError:
            yield from self.complain("the script is nested too deep for the fake")
            status = 2
        farewell = self.state.traps.pop(0, None)
        if farewell is not None:
            self.state.status = status
            try:
                yield from self.run(farewell)
            except Leave as leave:
                status = leave.status
        return status

    def complain(self, message: str) -> Effect:
        """Write a line to stderr, as a shell does."""
        yield from self.proc.write(2, f"sh: 1: {message}\n")

    def run(self, script: Script) -> Steps:
        """Run commands, one after the other."""
        status = 0
        for item in script.items:
            if item.background:
                status = self._in_background(item.items)
                continue
            for operator, pipeline in item.items:
                if (operator == "&&" and status) or (operator == "||" and not status):
                    continue
                guarded = pipeline is not item.items[-1][1]
                self.state.conditions += guarded
                try:
                    status = yield from self._pipeline(pipeline)
                finally:
                    self.state.conditions -= guarded
                self.state.status = status
            if status and self.state.leave_on_error and not self.state.conditions:
                negated = item.items[-1][1].negated
                if not negated:
                    raise Leave(status)
        return status

    def _in_background(self, items: tuple[tuple[str, Pipeline], ...]) -> int:
        script = Script((AndOr(items, False),))
        alone = items[0][1]
        single = len(items) == 1 and len(alone.commands) == 1 and not alone.negated
        try:
            # A single program takes the place of its subshell, so that `$!` is the program.
            child = self._fork(
                _only(alone.commands[0]) if single else lambda shell: shell.run(script)
            )
        except OSError:
            raise ShellFailed("Cannot fork") from None
        child.open_as(0, open_node(self.proc.tree, "/dev/null", "/", "r"))
        self.state.last_background = child.pid
        self.children[child.pid] = child
        return 0

    def _fork(self, body: Callable[[Shell], Steps]) -> Proc:
        state = self.state.copy()
        depth = self._depth
        return self.proc.fork(lambda proc: Shell(proc, state, depth).main(body))

    def substitute(self, script: Script) -> Generator[Wait, None, str]:
        """Return what a script writes to stdout."""
        reader, writer = pipe()
        try:
            child = self._fork(lambda shell: shell.run(script))
        except OSError:
            raise ShellFailed("Cannot fork") from None
        child.open_as(1, writer)
        data = bytearray()
        while True:
            yield from self.proc.block(Wait(reader.readable))
            piece = reader.read(65536)
            if not piece:
                break
            self.proc.use_memory(len(piece))
            data += piece
        reader.release()
        self.state.status = yield from self.proc.wait_for(child)
        return data.replace(b"\0", b"").decode("utf-8", "surrogateescape")

    # --- commands

    def _pipeline(self, pipeline: Pipeline) -> Steps:
        if len(pipeline.commands) == 1:
            status = yield from self.command(pipeline.commands[0])
        else:
            status = yield from self._piped(pipeline.commands)
        yield from self._run_traps()
        return int(not status) if pipeline.negated else status

    def _piped(self, commands: tuple[Command, ...]) -> Steps:
        children: list[Proc] = []
        source: Handle | None = None
        for position, command in enumerate(commands):
            reader: Handle | None = None
            writer: Handle | None = None
            if position < len(commands) - 1:
                reader, writer = pipe()
            try:
                child = self._fork(_only(command))
            except OSError:
                raise ShellFailed("Cannot fork") from None
            if source is not None:
                child.open_as(0, source)
            if writer is not None:
                child.open_as(1, writer)
            source = reader
            children.append(child)
        status = 0
        for child in children:
            ended = yield from self.proc.wait_for(child)
            status = ended or (status if self.state.pipe_fails else 0)
        return status

    def _run_traps(self) -> Effect:
        while self.proc.pending:
            script = self.state.traps.get(self.proc.pending.pop(0))
            if script is not None:
                status = self.state.status
                yield from self.run(script)
                self.state.status = status

    def command(self, command: Command, *, last: bool = False) -> Steps:
        """Run one command; the `last` of a process may take its place."""
        yield from self.proc.tick()
        if isinstance(command, Simple):
            return (yield from self._simple(command, last))
        if isinstance(command, Function):
            self.state.functions[command.name] = command
            return 0
        try:
            saved = yield from self.redirect(command.redirects)
        except OSError as error:
            return (yield from self._not_opened(error))
        try:
            return (yield from self._compound(command))
        finally:
            self.restore(saved)

    def _compound(self, command: Group | If | Loop | For | Case) -> Steps:
        if isinstance(command, Group):
            if not command.subshell:
                return (yield from self.run(command.body))
            try:
                child = self._fork(lambda shell: shell.run(command.body))
            except OSError:
                raise ShellFailed("Cannot fork") from None
            return (yield from self.proc.wait_for(child))
        if isinstance(command, If):
            for condition, body in command.branches:
                if not (yield from self._condition(condition)):
                    return (yield from self.run(body))
            return 0 if command.otherwise is None else (yield from self.run(command.otherwise))
        if isinstance(command, Case):
            return (yield from self._case(command))
        return (yield from self._loop(command))

    def _condition(self, script: Script) -> Steps:
        self.state.conditions += 1
        try:
            return (yield from self.run(script))
        finally:
            self.state.conditions -= 1

    def _case(self, command: Case) -> Steps:
        subject = yield from self.text(command.subject)
        for patterns, body in command.branches:
            for pattern in patterns:
                rule = pattern_of((yield from self.pieces(pattern)))
                if re.match(fnmatch.translate(rule), subject):
                    return (yield from self.run(body))
        return 0

    def _loop(self, command: Loop | For) -> Steps:
        status = 0
        values: list[str] = []
        if isinstance(command, For):
            if command.words is None:
                values = list(self.state.arguments)
            else:
                values = yield from self.fields(command.words)
        while True:
            if isinstance(command, For):
                if not values:
                    return status
                self.state.variables[command.name] = values.pop(0)
            elif bool((yield from self._condition(command.condition))) != command.until:
                return status
            try:
                status = yield from self.run(command.body)
            except LoopJump as jump:
                if jump.levels > 1:
                    raise LoopJump(jump.levels - 1, again=jump.again) from None
                if not jump.again:
                    return 0

    def _simple(self, command: Simple, last: bool) -> Steps:
        self.state.status = 0 if not command.words else self.state.status
        words = yield from self.fields(command.words)
        values: dict[str, str] = {}
        for name, word in command.assignments:
            values[name] = yield from self.text(word)
            if not words:
                self.state.variables[name] = values[name]
        try:
            saved = yield from self.redirect(command.redirects)
        except OSError as error:
            status = yield from self._not_opened(error)
            if words and words[0] in SPECIAL:
                raise Leave(status) from None
            return status
        try:
            if self.state.trace:
                yield from self.proc.write(2, f"+ {' '.join([*_shown(values), *words])}\n")
            if not words:
                return self.state.status
            if words == ["exec"]:
                for handle in saved.values():
                    if handle is not None:
                        handle.release()
                saved = {}
                return 0
            return (yield from self._named(tuple(words), values, last))
        finally:
            self.restore(saved)

    def _not_opened(self, error: OSError) -> Steps:
        path = error.filename or ""
        what = "cannot open" if error.errno != errno.EISDIR else "cannot create"
        yield from self.complain(f"{what} {path}: {error.strerror}")
        return 2

    def _named(self, words: tuple[str, ...], values: dict[str, str], last: bool) -> Steps:
        function = self.state.functions.get(words[0])
        if function is not None:
            return (yield from self._call(function, words[1:], values))
        builtin = BUILTINS.get(words[0])
        if builtin is not None:
            before = {name: self.state.variables.get(name) for name in values}
            self.state.variables.update(values)
            try:
                return (yield from builtin(self, words))
            finally:
                self._unset(before)
        env = {**self.state.env, **values}
        if last:
            return (yield from self.execute(self.proc, words, env))
        try:
            child = self.proc.fork(lambda proc: self.execute(proc, words, env), words)
        except OSError:
            raise ShellFailed("Cannot fork") from None
        self.children[child.pid] = child
        status = yield from self.proc.wait_for(child)
        del self.children[child.pid]
        return status

    def _unset(self, before: dict[str, str | None]) -> None:
        for name, value in before.items():
            if value is None:
                self.state.variables.pop(name, None)
            else:
                self.state.variables[name] = value

    def execute(self, proc: Proc, words: tuple[str, ...], env: dict[str, str]) -> Steps:
        """Become a program, or say as a shell does why that is not possible."""
        found = proc.kernel.lookup(words[0], env, proc.cwd)
        if isinstance(found, Missing):
            reason = found.message.removeprefix(f"sandboxio: {words[0]}: ")
            reason = reason.replace("command not found", "not found")
            yield from proc.write(2, f"sh: 1: {words[0]}: {reason}\n")
            return found.status
        return (yield from proc.exec(words, env))

    def _call(
        self, function: Function, arguments: tuple[str, ...], values: dict[str, str]
    ) -> Steps:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ShellFailed("functions are nested too deep for the fake")
        before = self.state.arguments
        self.state.arguments = arguments
        self.state.locals.append({})
        self.state.variables.update(values)
        try:
            return (yield from self.command(function.body))
        except ReturnFrom as done:
            return done.status
        finally:
            self._depth -= 1
            self.state.arguments = before
            self._unset(self.state.locals.pop())

    # --- redirections

    def redirect(
        self, redirects: tuple[Redirect, ...]
    ) -> Generator[Wait, None, dict[int, Handle | None]]:
        """Apply redirections; return what was there before."""
        saved: dict[int, Handle | None] = {}
        try:
            for redirect in redirects:
                handle = yield from self._target(redirect)
                if redirect.fd not in saved:
                    saved[redirect.fd] = self.proc.handles.pop(redirect.fd, None)
                if handle is None:
                    self.proc.close(redirect.fd)
                else:
                    self.proc.open_as(redirect.fd, handle)
        except BaseException:
            self.restore(saved)
            raise
        return saved

    def restore(self, saved: dict[int, Handle | None]) -> None:
        """Undo redirections."""
        if self.proc.status is not None:
            for handle in saved.values():
                if handle is not None:
                    handle.release()
            return
        for fd, handle in saved.items():
            self.proc.close(fd)
            if handle is not None:
                self.proc.handles[fd] = handle

    def _target(self, redirect: Redirect) -> Generator[Wait, None, Handle | None]:
        text = yield from self.text(redirect.target)
        if redirect.operator == "<<":
            return _given(text)
        if redirect.operator in (">&", "<&"):
            if text == "-":
                return None
            if not text.isdigit() or int(text) not in self.proc.handles:
                raise fail(errno.EBADF, text)
            return self.proc.handles[int(text)].share()
        if text in ("/dev/stdin", "/dev/stdout", "/dev/stderr"):
            fd = ("/dev/stdin", "/dev/stdout", "/dev/stderr").index(text)
            return self.proc.handle(fd).share()
        flags = {"<": "r", ">>": "a"}.get(redirect.operator, "w")
        return open_node(self.proc.tree, text, self.proc.cwd, flags)


class _Text(Handle):
    """The content of a here-document."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data

    def read(self, size: int) -> bytes:
        piece, self._data = self._data[:size], self._data[size:]
        return piece


def _given(text: str) -> Handle:
    return _Text(text.encode("utf-8", "surrogateescape"))


def _only(command: Command) -> Callable[[Shell], Steps]:
    return lambda shell: shell.command(command, last=True)


def _shown(values: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]
