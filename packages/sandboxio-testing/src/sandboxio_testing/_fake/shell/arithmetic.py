"""``$((…))``: integers of 64 bits."""

from __future__ import annotations

import re
from collections.abc import Callable, MutableMapping

__all__ = ["ArithmeticFailed", "evaluate"]

TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%()<>!~?:&|^=])"
)

BINARY: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a) or bool(b))},
    {"&&": lambda a, b: int(bool(a) and bool(b))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<=": lambda a, b: int(a <= b),
        ">=": lambda a, b: int(a >= b),
        "<": lambda a, b: int(a < b),
        ">": lambda a, b: int(a > b),
    },
    {"<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63)},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": lambda a, b: _divide(a, b), "%": lambda a, b: _remainder(a, b)},
)


class ArithmeticFailed(Exception):
    """The expression is none, or divides by zero."""


def evaluate(text: str, variables: MutableMapping[str, str]) -> int:
    """Return the value of an expression; assignments change the variables."""
    tokens: list[str] = []
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = TOKEN.match(stripped, at)
        if match is None:
            raise ArithmeticFailed(f"arithmetic expression: unexpected {stripped[at : at + 10]!r}")
        tokens.append(match[1])
        at = match.end()
    if not tokens:
        return 0
    expression = _Expression(tokens, variables)
    value = expression.assignment()
    if expression.tokens:
        raise ArithmeticFailed(f"arithmetic expression: unexpected {expression.tokens[0]!r}")
    return value


class _Expression:
    def __init__(self, tokens: list[str], variables: MutableMapping[str, str]) -> None:
        self.tokens = tokens
        self._variables = variables

    def _take(self, token: str) -> bool:
        if self.tokens[:1] == [token]:
            del self.tokens[0]
            return True
        return False

    def assignment(self) -> int:
        if len(self.tokens) > 2 and self.tokens[1] == "=" and self.tokens[0].isidentifier():
            name = self.tokens[0]
            del self.tokens[:2]
            value = self.assignment()
            self._variables[name] = str(value)
            return value
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        yes = self.assignment()
        if not self._take(":"):
            raise ArithmeticFailed("arithmetic expression: expecting ':'")
        no = self.assignment()
        return yes if condition else no

    def _binary(self, level: int) -> int:
        if level == len(BINARY):
            return self._unary()
        value = self._binary(level + 1)
        while self.tokens and self.tokens[0] in BINARY[level]:
            operator = BINARY[level][self.tokens.pop(0)]
            value = _wrap(operator(value, self._binary(level + 1)))
        return value

    def _unary(self) -> int:
        if not self.tokens:
            raise ArithmeticFailed("arithmetic expression: it ends too early")
        head = self.tokens.pop(0)
        if head == "-":
            return _wrap(-self._unary())
        if head == "+":
            return self._unary()
        if head == "!":
            return int(not self._unary())
        if head == "~":
            return ~self._unary()
        if head == "(":
            value = self.assignment()
            if not self._take(")"):
                raise ArithmeticFailed("arithmetic expression: expecting ')'")
            return value
        if head[0].isdigit():
            return _number(head)
        if head.isidentifier():
            return _number(self._variables.get(head, "") or "0")
        raise ArithmeticFailed(f"arithmetic expression: unexpected {head!r}")


def _number(text: str) -> int:
    try:
        octal = len(text) > 1 and text[0] == "0" and text[1:].isdigit()
        return _wrap(int(text, 8 if octal else 0))
    except ValueError:
        raise ArithmeticFailed(f"Illegal number: {text}") from None


def _wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _divide(left: int, right: int) -> int:
    if right == 0:
        raise ArithmeticFailed("arithmetic expression: division by zero")
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _remainder(left: int, right: int) -> int:
    return left - right * _divide(left, right)
