"""Expressions of modelled Python code."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

from ..process import Died, Proc
from .methods import attribute
from .modules import BUILTINS, ERRORS, Ended, text_of
from .values import (
    BIG,
    CannotModel,
    Module,
    Native,
    Opaque,
    Raised,
    Value,
    checked_format,
    checked_size,
)

__all__ = ["Expressions"]

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.LShift: lambda a, b: a << b,
    ast.Mod: lambda a, b: a % b,
    ast.Mult: lambda a, b: a * b,
    ast.Pow: lambda a, b: a**b,
    ast.RShift: lambda a, b: a >> b,
    ast.Sub: lambda a, b: a - b,
}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: a == b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.In: lambda a, b: a in b,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.NotEq: lambda a, b: a != b,
    ast.NotIn: lambda a, b: a not in b,
}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Invert: lambda a: ~a,
    ast.Not: lambda a: not a,
    ast.UAdd: lambda a: +a,
    ast.USub: lambda a: -a,
}


class Expressions:
    """Evaluates expressions with the names of one piece of code."""

    def __init__(self, proc: Proc, names: dict[str, Any]) -> None:
        self.proc = proc
        self.names = names

    def value(self, node: ast.expr) -> Value:
        """Evaluate an expression."""
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return self._name(name)
            case ast.BinOp(left, op, right):
                first = yield from self.value(left)
                return self._binary(op, first, (yield from self.value(right)))
            case ast.UnaryOp():
                value = yield from self.value(node.operand)
                return self.guest(UNARY[type(node.op)], value)
            case ast.BoolOp(op, values):
                return (yield from self._bool(isinstance(op, ast.And), values))
            case ast.Compare():
                return (yield from self._compare(node))
            case ast.IfExp(test, body, orelse):
                return (yield from self.value(body if (yield from self.value(test)) else orelse))
            case ast.JoinedStr(parts):
                return (yield from self._joined(parts))
            case ast.FormattedValue():
                return (yield from self._formatted(node))
            case ast.List(items) | ast.Tuple(items) | ast.Set(items):
                values = yield from self._values(items)
                return {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)](values)
            case ast.Dict(keys, items):
                if None in keys:
                    raise CannotModel("** in a dictionary")
                names = yield from self._values([key for key in keys if key is not None])
                values = yield from self._values(items)
                return self.guest(lambda: dict(zip(names, values, strict=True)))
            case ast.Subscript(holder, index):
                place = yield from self.value(holder)
                key = yield from self.value(index)
                return self.guest(lambda: place[key])
            case ast.Slice(lower, upper, step):
                bounds: list[Any] = []
                for bound in (lower, upper, step):
                    bounds.append(None if bound is None else (yield from self.value(bound)))
                return slice(*bounds)
            case ast.Attribute(holder, name):
                return attribute((yield from self.value(holder)), name)
            case ast.Call():
                return (yield from self._call(node))
            case _:
                raise CannotModel(f"an expression of the kind {type(node).__name__}")

    def _values(self, nodes: list[ast.expr]) -> Value:
        values: list[Any] = []
        for node in nodes:
            values.append((yield from self.value(node)))
        return values

    def _name(self, name: str) -> Any:
        if name in self.names:
            return self.names[name]
        if name in BUILTINS:
            return BUILTINS[name]
        if hasattr(builtins, name):
            raise CannotModel(f"the name {name}")
        raise Raised(NameError(f"name {name!r} is not defined"))

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        function = BINARY.get(type(op))
        if function is None or isinstance(left, Opaque) or isinstance(right, Opaque):
            raise CannotModel(f"the operation {type(op).__name__}")
        if isinstance(op, ast.Mult):
            for sequence, count in ((left, right), (right, left)):
                if isinstance(sequence, (str, bytes, bytearray, list, tuple)) and isinstance(
                    count, int
                ):
                    unit = 1 if isinstance(sequence, (str, bytes, bytearray)) else 8
                    big = checked_size(self.proc, _length(sequence) * unit * count)
                    if big is not None:
                        return big
        if (
            isinstance(op, (ast.Pow, ast.LShift))
            and isinstance(left, int)
            and isinstance(right, int)
        ):
            grows = right * (left.bit_length() if isinstance(op, ast.Pow) else 1)
            if grows > BIG // 64:
                raise CannotModel("a number of so many digits")
        if isinstance(op, ast.Mod) and isinstance(left, (str, bytes)):
            checked_format(str(left))
        return self.guest(function, left, right)

    def _bool(self, all_: bool, nodes: list[ast.expr]) -> Value:
        value: Any = None
        for node in nodes:
            value = yield from self.value(node)
            if bool(value) != all_:
                break
        return value

    def _compare(self, node: ast.Compare) -> Value:
        left = yield from self.value(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = yield from self.value(right_node)
            first = left
            if not self.guest(COMPARE[type(op)], first, right):
                return False
            left = right
        return True

    def _joined(self, parts: list[ast.expr]) -> Value:
        texts: list[str] = []
        for part in parts:
            texts.append(text_of((yield from self.value(part))))
        return "".join(texts)

    def _formatted(self, node: ast.FormattedValue) -> Value:
        value = yield from self.value(node.value)
        if node.conversion in (ord("r"), ord("a")):
            value = repr(value) if node.conversion == ord("r") else ascii(value)
        elif node.conversion == ord("s"):
            value = text_of(value)
        spec = "" if node.format_spec is None else (yield from self.value(node.format_spec))
        if not spec:
            return text_of(value)
        return self.guest(lambda: format(value, checked_format(spec)))

    def _call(self, node: ast.Call) -> Value:
        function = yield from self.value(node.func)
        args: list[Any] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                args += self.guest(list, (yield from self.value(arg.value)))
            else:
                args.append((yield from self.value(arg)))
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise CannotModel("** in a call")
            keywords[keyword.arg] = yield from self.value(keyword.value)
        if isinstance(function, type) and function in ERRORS.values():
            return self.guest(function, *args)
        if not isinstance(function, Native):
            if callable(function) or isinstance(function, Module):
                raise CannotModel("such a call")
            raise Raised(TypeError(f"{type(function).__name__!r} object is not callable"))
        try:
            return (yield from function.call(self.proc, args, keywords))
        except (Raised, CannotModel, Ended, Died):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the code's own
            raise Raised(error) from None

    def guest(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Do what the code asks for; what goes wrong with it, goes wrong in the code."""
        try:
            return operation(*args)
        except (Raised, CannotModel, Died):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the code's own
            raise Raised(error) from None


def _length(value: Any) -> int:
    return len(value)
