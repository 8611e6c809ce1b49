"""``echo`` and ``printf``."""

from __future__ import annotations

import re

from ..process import Proc, Steps

__all__ = ["echo", "printf", "unescaped"]

ESCAPE = re.compile(r"\\(?:0[0-7]{0,3}|[1-7][0-7]{0,2}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
NAMED = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
DIRECTIVE = re.compile(r"%([-+ 0#]*)(\d*)(?:\.(\d+))?([a-zA-Z%])")


def echo(proc: Proc, args: tuple[str, ...]) -> Steps:
    """Write the arguments; ``-n`` without the newline, ``-e`` with escapes."""
    rest = list(args)
    newline, escapes = True, False
    while rest and re.fullmatch(r"-[neE]+", rest[0]):
        option = rest.pop(0)
        newline = newline and "n" not in option
        escapes = "e" in option
    data = " ".join(rest).encode("utf-8", "surrogateescape")
    if escapes:
        data = unescaped(" ".join(rest))
    yield from proc.write(1, data + b"\n" * newline)
    return 0


def unescaped(text: str) -> bytes:
    """Return what a text with backslash escapes stands for; numbers are bytes."""
    out = bytearray()
    at = 0
    for match in ESCAPE.finditer(text):
        out += text[at : match.start()].encode("utf-8", "surrogateescape")
        at = match.end()
        body = match[0][1:]
        if body[0] in "01234567":
            out.append(int(body, 8) & 0xFF)
        elif body[0] == "x" and len(body) > 1:
            out.append(int(body[1:], 16))
        elif body in NAMED:
            out += NAMED[body].encode()
        else:
            out += (body if body == "\\" else match[0]).encode("utf-8", "surrogateescape")
    return bytes(out + text[at:].encode("utf-8", "surrogateescape"))


def printf(proc: Proc, args: tuple[str, ...]) -> Steps:
    """Write a format, again as long as there are arguments for it."""
    if not args:
        return (yield from proc.complain("printf: usage: printf format [arguments]", 2))
    template, rest = args[0], list(args[1:])
    status = 0
    while True:
        left = len(rest)
        out = bytearray()
        at = 0
        for match in DIRECTIVE.finditer(template):
            out += unescaped(template[at : match.start()])
            at = match.end()
            try:
                out += _formatted(match, rest)
            except ValueError as error:
                yield from proc.write(2, f"printf: {error}\n")
                status = 1
        out += unescaped(template[at:])
        yield from proc.write(1, bytes(out))
        if not rest or len(rest) == left:
            return status


def _formatted(match: re.Match[str], rest: list[str]) -> bytes:
    flags, width, precision, kind = match[1], match[2], match[3], match[4]
    if kind == "%":
        return b"%"
    argument = rest.pop(0) if rest else None
    if kind == "b":
        return unescaped(argument or "")
    shape = f"%{flags}{width}" + (f".{precision}" if precision else "")
    if kind == "s":
        return (f"{shape}s" % (argument or "")).encode("utf-8", "surrogateescape")
    if kind == "c":
        return (argument or "")[:1].encode("utf-8", "surrogateescape")
    if kind in "dioxXu":
        return (f"{shape}{kind}" % _integer(argument)).encode()
    if kind in "feEgG":
        return (f"{shape}{kind}" % float(argument or 0)).encode()
    raise ValueError(f"%{kind}: the fake's printf does not know it")


def _integer(argument: str | None) -> int:
    if not argument:
        return 0
    if argument[0] in "'\"" and len(argument) > 1:
        return ord(argument[1])
    try:
        return int(argument, 0) if not argument.lstrip("-").startswith("0") else int(argument, 8)
    except ValueError:
        raise ValueError(f"{argument}: expected numeric value") from None
