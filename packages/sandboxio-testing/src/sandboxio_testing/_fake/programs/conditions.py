"""``test`` and ``[``."""

from __future__ import annotations

from ..nodes import DirNode, FileNode, LinkNode, Node
from ..process import Proc, Steps

__all__ = ["bracket", "test"]

NUMBERS = ("-eq", "-ne", "-lt", "-le", "-gt", "-ge")
BINARY = ("=", "==", "!=", "<", ">", "-nt", "-ot", "-ef", *NUMBERS)


class _Wrong(Exception):
    """The expression is none."""


def bracket(proc: Proc, args: tuple[str, ...]) -> Steps:
    """Test what is between the brackets."""
    if args[-1:] != ("]",):
        return (yield from proc.complain("[: missing ]", 2))
    return (yield from test(proc, args[:-1]))


def test(proc: Proc, args: tuple[str, ...]) -> Steps:
    """Return 0 if the expression is true, 1 if not, 2 if it is none."""
    yield from proc.tick()
    rest = list(args)
    try:
        value = _or(proc, rest) if rest else False
        if rest:
            raise _Wrong(f"{rest[0]}: unexpected operator")
    except _Wrong as error:
        return (yield from proc.complain(f"test: {error}", 2))
    return int(not value)


def _or(proc: Proc, rest: list[str]) -> bool:
    value = _and(proc, rest)
    while rest[:1] == ["-o"]:
        del rest[0]
        value = _and(proc, rest) or value
    return value


def _and(proc: Proc, rest: list[str]) -> bool:
    value = _not(proc, rest)
    while rest[:1] == ["-a"]:
        del rest[0]
        value = _not(proc, rest) and value
    return value


def _not(proc: Proc, rest: list[str]) -> bool:
    if rest[:1] == ["!"] and len(rest) > 1:
        del rest[0]
        return not _not(proc, rest)
    return _primary(proc, rest)


def _primary(proc: Proc, rest: list[str]) -> bool:
    if not rest:
        raise _Wrong("argument expected")
    if len(rest) >= 3 and rest[1] in BINARY:
        left, operator, right = rest[:3]
        del rest[:3]
        return _compared(proc, left, operator, right)
    if rest[0] == "(":
        del rest[0]
        value = _or(proc, rest)
        if rest[:1] != [")"]:
            raise _Wrong("missing )")
        del rest[0]
        return value
    if len(rest) >= 2 and len(rest[0]) == 2 and rest[0][0] == "-" and rest[0][1] in _UNARY:
        operator, operand = rest[:2]
        del rest[:2]
        return _unary(proc, operator[1], operand)
    return bool(rest.pop(0))


_UNARY = "nzedfhLrwxsp"


def _unary(proc: Proc, operator: str, operand: str) -> bool:
    if operator == "n":
        return bool(operand)
    if operator == "z":
        return not operand
    node = _node(proc, operand, follow=operator not in "hL")
    if node is None:
        return False
    if operator in "rwx":
        return bool(node.mode & {"r": 0o400, "w": 0o200, "x": 0o100}[operator])
    kinds = {"d": DirNode, "f": FileNode, "h": LinkNode, "L": LinkNode}
    if operator in kinds:
        return isinstance(node, kinds[operator])
    return operator == "e" or (operator == "s" and node.size > 0)


def _node(proc: Proc, path: str, *, follow: bool = True) -> Node | None:
    try:
        return proc.tree.find(path, proc.cwd, follow=follow)
    except OSError:
        return None


def _compared(proc: Proc, left: str, operator: str, right: str) -> bool:
    if operator in NUMBERS:
        try:
            a, b = int(left), int(right)
        except ValueError:
            raise _Wrong(f"Illegal number: {left if not _is_int(left) else right}") from None
        return {
            "-eq": a == b,
            "-ne": a != b,
            "-lt": a < b,
            "-le": a <= b,
            "-gt": a > b,
            "-ge": a >= b,
        }[operator]
    if operator in ("-nt", "-ot", "-ef"):
        first, second = _node(proc, left), _node(proc, right)
        if first is None or second is None:
            return False
        if operator == "-ef":
            return first is second
        newer = first.mtime > second.mtime
        return newer if operator == "-nt" else first.mtime < second.mtime
    return {"=": left == right, "==": left == right, "!=": left != right}.get(
        operator, left < right if operator == "<" else left > right
    )


def _is_int(text: str) -> bool:
    return text.lstrip("+-").isdigit()
