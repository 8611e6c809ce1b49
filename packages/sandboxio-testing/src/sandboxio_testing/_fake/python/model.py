"""Runs Python source as far as the fake knows it, one statement at a time.

It never hands code to the interpreter of the host. What it knows: literals, names, arithmetic,
comparisons, f-strings, calls of the functions and methods that are listed here, assignments,
``if``, ``for``, ``while``, ``try``, ``with`` on files, ``raise``, ``assert`` and a few modules.
Whatever else the code has in it, ends it with an error that says so: a fake that let it pass would
let a broken tool pass.
"""

from __future__ import annotations

import ast
import operator
import warnings
from typing import Any

from ..process import Died, Proc, Steps
from ..programs.network import Fetch
from .expressions import Expressions
from .methods import attribute, enter
from .modules import Ended, modules, text_of
from .sockets import Socket
from .values import CannotModel, File, Raised, Value

__all__ = ["CANNOT_MODEL", "run_python"]

CANNOT_MODEL = 70
"""Exit code of code that the fake does not know; ``EX_SOFTWARE`` of sysexits."""


class _Break(Exception):
    """Out of a loop."""


class _Continue(Exception):
    """On with a loop."""


def run_python(
    proc: Proc,
    source: str,
    fetch: Fetch,
    names: dict[str, Any] | None = None,
    shown: list[str] | None = None,
) -> Steps:
    """Run source text.

    Variables are kept in `names` if it is given, and the value of the last expression is put into
    `shown`, as an interpreter does that one talks to.
    """
    model = _Model(proc, fetch, {} if names is None else names)
    try:
        yield from proc.tick()
        tree = _parsed(source)
        yield from model.whole(tree, shown)
    except SyntaxError as error:
        where = f'  File "<stdin>", line {error.lineno}\n'
        yield from proc.write(2, f"{where}{type(error).__name__}: {error.msg}\n")
        return 1
    except CannotModel as error:
        yield from proc.write(
            2,
            f"The fake cannot model this code: {error} (line {model.line}). It runs nothing; say "
            "what this code does: fake.on_run_code(match=..., returns=ExecResult(...)).\n",
        )
        return CANNOT_MODEL
    except RecursionError:
        yield from proc.write(2, "The fake cannot model this code: it is nested too deep.\n")
        return CANNOT_MODEL
    except Ended as ended:
        return ended.status & 0xFF
    except Raised as raised:
        return (yield from _uncaught(proc, raised.error, model.line))
    return 0


def _parsed(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the code under test, which is not ours
        try:
            return ast.parse(source)
        except ValueError as error:  # NUL characters
            raise SyntaxError(str(error)) from None
        except MemoryError:  # what the parser says about too deep nesting
            raise RecursionError from None


def _uncaught(proc: Proc, error: BaseException, line: int) -> Steps:
    if isinstance(error, SystemExit):
        code = error.code
        if code is None or isinstance(code, int):
            return (code or 0) & 0xFF
        yield from proc.write(2, f"{text_of(code)}\n")
        return 1
    text = str(error)
    yield from proc.write(
        2,
        f'Traceback (most recent call last):\n  File "<stdin>", line {line}, in <module>\n'
        f"{type(error).__name__}{': ' * bool(text)}{text}\n",
    )
    return 130 if isinstance(error, KeyboardInterrupt) else 1


class _Model(Expressions):
    def __init__(self, proc: Proc, fetch: Fetch, names: dict[str, Any]) -> None:
        super().__init__(proc, names)
        self.line = 0
        self._modules = modules(proc, fetch)
        self._handling: list[BaseException] = []

    def whole(self, tree: ast.Module, shown: list[str] | None) -> Value:
        """Run a module; an expression at its end is shown."""
        last = tree.body[-1] if tree.body else None
        if shown is None or not isinstance(last, ast.Expr):
            yield from self.block(tree.body)
            return
        yield from self.block(tree.body[:-1])
        self.line = last.lineno
        value = yield from self.value(last.value)
        if value is not None:
            shown.append(repr(value))

    # --- statements

    def block(self, body: list[ast.stmt]) -> Value:
        for statement in body:
            self.line = statement.lineno
            yield from self.proc.tick()
            yield from self._statement(statement)

    def _statement(self, node: ast.stmt) -> Value:
        match node:
            case ast.Expr(value):
                yield from self.value(value)
            case ast.Assign(targets, value):
                result = yield from self.value(value)
                for target in targets:
                    yield from self._assign(target, result)
            case ast.AnnAssign(target, _, value) if value is not None:
                yield from self._assign(target, (yield from self.value(value)))
            case ast.AugAssign(target, op, value):
                yield from self._augmented(target, op, value)
            case ast.If(test, body, orelse):
                yield from self.block(body if (yield from self.value(test)) else orelse)
            case ast.While() | ast.For():
                yield from self._loop(node)
            case ast.Pass():
                pass
            case ast.Break():
                raise _Break
            case ast.Continue():
                raise _Continue
            case ast.Import(names):
                for alias in names:
                    self._import(alias)
            case ast.ImportFrom(module, names, 0) if module in self._modules:
                for alias in names:
                    found = attribute(self._modules[module], alias.name)
                    self.names[alias.asname or alias.name] = found
            case ast.ImportFrom(module):
                raise CannotModel(f"the import of {module}")
            case ast.Raise(exc):
                yield from self._raise(exc)
            case ast.Try():
                yield from self._try(node)
            case ast.With(items, body):
                yield from self._with(items, body)
            case ast.Assert(test, message):
                if not (yield from self.value(test)):
                    text = [] if message is None else [(yield from self.value(message))]
                    raise Raised(AssertionError(*text))
            case ast.Delete(targets):
                for target in targets:
                    if not isinstance(target, ast.Name) or target.id not in self.names:
                        raise CannotModel("del of such a target")
                    del self.names[target.id]
            case _:
                raise CannotModel(f"a statement of the kind {type(node).__name__}")
        return None

    def _import(self, alias: ast.alias) -> None:
        module = self._modules.get(alias.name)
        if module is None:
            raise CannotModel(f"the import of {alias.name}")
        top = self._modules[alias.name.partition(".")[0]]
        self.names[alias.asname or top.name] = module if alias.asname else top

    def _assign(self, target: ast.expr, value: Any) -> Value:
        match target:
            case ast.Name(name):
                self.names[name] = value
            case ast.Tuple(targets) | ast.List(targets):
                values = self.guest(lambda: list(value))
                if len(values) != len(targets) or any(isinstance(t, ast.Starred) for t in targets):
                    raise Raised(ValueError(f"cannot unpack {len(values)} values"))
                for part, item in zip(targets, values, strict=True):
                    yield from self._assign(part, item)
            case ast.Subscript(holder, index):
                place = yield from self.value(holder)
                key = yield from self.value(index)
                self.guest(lambda: operator.setitem(place, key, value))
            case _:
                raise CannotModel(f"an assignment to a {type(target).__name__}")
        return None

    def _augmented(self, target: ast.expr, op: ast.operator, value: ast.expr) -> Value:
        if not isinstance(target, (ast.Name, ast.Subscript)):
            raise CannotModel(f"an assignment to a {type(target).__name__}")
        old = yield from self.value(target)
        new = self._binary(op, old, (yield from self.value(value)))
        yield from self._assign(target, new)
        return None

    def _loop(self, node: ast.While | ast.For) -> Value:
        items: Any = None
        if isinstance(node, ast.For):
            source = yield from self.value(node.iter)
            items = self.guest(lambda: iter(source))
        while True:
            yield from self.proc.tick()
            if isinstance(node, ast.For):
                try:
                    item = self.guest(lambda: next(items))
                except Raised as raised:
                    if not isinstance(raised.error, StopIteration):
                        raise
                    break
                yield from self._assign(node.target, item)
            elif not (yield from self.value(node.test)):
                break
            try:
                yield from self.block(node.body)
            except _Break:
                return None
            except _Continue:
                continue
        yield from self.block(node.orelse)
        return None

    def _raise(self, exc: ast.expr | None) -> Value:
        if exc is None:
            raise Raised(
                self._handling[-1]
                if self._handling
                else RuntimeError("No active exception to reraise")
            )
        error = yield from self.value(exc)
        if isinstance(error, type) and issubclass(error, BaseException):
            error = error()
        if not isinstance(error, BaseException):
            raise Raised(TypeError("exceptions must derive from BaseException"))
        raise Raised(error)

    def _try(self, node: ast.Try) -> Value:
        try:
            try:
                yield from self.block(node.body)
            except Raised as raised:
                handler = yield from self._handler(node.handlers, raised.error)
                if handler is None:
                    raise
                if handler.name:
                    self.names[handler.name] = raised.error
                self._handling.append(raised.error)
                try:
                    yield from self.block(handler.body)
                finally:
                    self._handling.pop()
            else:
                yield from self.block(node.orelse)
        except (GeneratorExit, Died, CannotModel, Ended):
            raise
        except BaseException:
            yield from self.block(node.finalbody)
            raise
        yield from self.block(node.finalbody)
        return None

    def _handler(self, handlers: list[ast.ExceptHandler], error: BaseException) -> Value:
        for handler in handlers:
            if handler.type is None:
                return handler
            kinds = yield from self.value(handler.type)
            if self.guest(isinstance, error, kinds):
                return handler
        return None

    def _with(self, items: list[ast.withitem], body: list[ast.stmt]) -> Value:
        opened: list[File | Socket] = []
        for item in items:
            file = enter((yield from self.value(item.context_expr)))
            opened.append(file)
            if item.optional_vars is not None:
                yield from self._assign(item.optional_vars, file)
        try:
            yield from self.block(body)
        finally:
            for file in opened:
                if isinstance(file, Socket):
                    file.close(self.proc)
                    continue
                self.proc.close(file.fd)
                file.closed = True
        return None
