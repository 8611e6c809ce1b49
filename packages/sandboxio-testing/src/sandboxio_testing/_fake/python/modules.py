"""The modules that modelled code can import, and the names that it finds without."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from typing import Any

from ..handles import open_node
from ..internet import Reply
from ..process import Died, Proc
from ..programs.network import Fetch
from .sockets import socket_module
from .values import (
    BIG,
    CannotModel,
    File,
    Module,
    Native,
    Opaque,
    Raised,
    Value,
    checked_format,
    checked_size,
    pure,
    reason,
)

__all__ = ["BUILTINS", "ERRORS", "modules"]

ERRORS: dict[str, type[BaseException]] = {
    error.__name__: error
    for error in (
        ArithmeticError,
        AssertionError,
        AttributeError,
        BaseException,
        EOFError,
        Exception,
        FileNotFoundError,
        ImportError,
        IndexError,
        KeyError,
        KeyboardInterrupt,
        LookupError,
        MemoryError,
        ModuleNotFoundError,
        NameError,
        NotImplementedError,
        OSError,
        OverflowError,
        PermissionError,
        RecursionError,
        RuntimeError,
        StopIteration,
        SystemExit,
        TimeoutError,
        TypeError,
        UnicodeDecodeError,
        ValueError,
        ZeroDivisionError,
    )
}


def text_of(value: Any) -> str:
    """Return ``str(value)`` of a modelled value."""
    if isinstance(value, Native):
        return f"<built-in function {value.name}>"
    if isinstance(value, Module):
        return f"<module {value.name!r}>"
    if isinstance(value, (Opaque, File)):
        raise CannotModel("the text of such a value")
    return str(value)


def _print(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
    unknown = set(keywords) - {"sep", "end", "file", "flush"}
    if unknown:
        raise Raised(TypeError(f"print() got an unexpected keyword argument {unknown.pop()!r}"))
    separator = " " if keywords.get("sep") is None else str(keywords["sep"])
    end = "\n" if keywords.get("end") is None else str(keywords["end"])
    text = separator.join(map(text_of, args)) + end
    target = keywords.get("file")
    if target is None:
        target = File(1, writes=True, binary=False)
    if not isinstance(target, File) or not target.writes:
        raise CannotModel("print() to such a file")
    yield from proc.write(target.fd, text.encode("utf-8", "backslashreplace"))
    return None


def _allocating(name: str, make: Callable[..., Any]) -> Native:
    def call(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
        yield from proc.tick()
        if len(args) == 1 and isinstance(args[0], int) and not keywords:
            big = checked_size(proc, args[0])
            if big is not None:
                return big
        return make(*args, **keywords)

    return Native(name, call)


def _input(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
    if args:
        yield from proc.write(1, text_of(args[0]))
    line = bytearray()
    while (byte := (yield from proc.read(0, 1))) not in (b"", b"\n"):
        line += byte
    if not byte and not line:
        raise Raised(EOFError("EOF when reading a line"))
    return line.decode("utf-8", "surrogateescape")


def _open(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
    yield from proc.tick()
    mode = args[1] if len(args) > 1 else keywords.get("mode", "r")
    if set(keywords) - {"mode", "encoding"} or mode not in ("r", "w", "a", "rb", "wb", "ab"):
        raise CannotModel(f"open() with the mode {mode!r} or such options")
    if not args or not isinstance(args[0], str):
        raise CannotModel("open() of such a path")
    try:
        handle = open_node(proc.tree, args[0], proc.cwd, mode[0])
    except OSError as error:
        raise Raised(OSError(error.errno, error.strerror, args[0])) from None
    fd = max([2, *proc.handles]) + 1
    proc.open_as(fd, handle)
    return File(fd, writes=mode[0] != "r", binary=mode.endswith("b"))


def _exit(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
    yield from ()
    raise Raised(SystemExit(*args))


def _format(value: Any, spec: str = "") -> str:
    return format(value, checked_format(spec))


def _pow(base: Any, exponent: Any, modulus: Any = None) -> Any:
    if modulus is not None:
        raise CannotModel("pow() with a modulus")
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > BIG:
        raise CannotModel("a number of so many digits")
    return base**exponent


PURE: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "all": all,
    "ascii": ascii,
    "any": any,
    "bin": bin,
    "bool": bool,
    "chr": chr,
    "dict": dict,
    "divmod": divmod,
    "enumerate": enumerate,
    "float": float,
    "format": _format,
    "hex": hex,
    "int": int,
    "list": list,
    "max": max,
    "min": min,
    "oct": oct,
    "ord": ord,
    "pow": _pow,
    "repr": repr,
    "reversed": reversed,
    "round": round,
    "set": set,
    "sorted": sorted,
    "sum": sum,
    "tuple": tuple,
    "zip": zip,
}

BUILTINS: dict[str, Any] = {
    **ERRORS,
    **{name: pure(name, function) for name, function in PURE.items()},
    "len": Native("len", lambda proc, args, keywords: _len(args)),
    "str": Native("str", lambda proc, args, keywords: _str(args)),
    "range": Native("range", lambda proc, args, keywords: _range(args)),
    "bytearray": _allocating("bytearray", bytearray),
    "bytes": _allocating("bytes", bytes),
    "exit": Native("exit", _exit),
    "input": Native("input", _input),
    "open": Native("open", _open),
    "print": Native("print", _print),
    "quit": Native("quit", _exit),
    "__name__": "__main__",
}


def _len(args: list[Any]) -> Value:
    yield from ()
    return args[0].size if args and isinstance(args[0], Opaque) else len(*args)


def _str(args: list[Any]) -> Value:
    yield from ()
    return text_of(args[0]) if len(args) == 1 else str(*args)


def _range(args: list[Any]) -> Value:
    yield from ()
    return range(*args)


def modules(proc: Proc, fetch: Fetch) -> dict[str, Module]:
    """Return what can be imported in a process."""

    def sleep(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
        yield from proc.sleep(float(args[0]))
        return None

    def ended(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
        yield from ()
        raise Ended(int(args[0]))

    def kill(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
        yield from ()
        target = proc.kernel.get(int(args[0]))
        if target is None:
            raise Raised(ProcessLookupError(3, "No such process"))
        proc.kernel.signal(target, int(args[1]))
        if proc.status is not None:
            raise Died(int(args[1]))
        return None

    def urlopen(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
        yield from proc.tick()
        if not args or not isinstance(args[0], str):
            raise CannotModel("urlopen() of such a request")
        answer = fetch(proc, args[0])
        if isinstance(answer, Reply):
            raise Raised(OSError(f"<urlopen error {reason(answer)}>"))
        if answer.status >= 400:
            raise Raised(OSError(f"HTTP Error {answer.status}"))
        return File(-1, writes=False, binary=True, data=answer.body)

    def getenv(name: str, default: str | None = None) -> str | None:
        return proc.env.get(name, default)

    def listdir(*path: str) -> list[str]:
        return sorted(proc.tree.directory(path[0] if path else ".", proc.cwd).entries)

    def rename(source: str, target: str) -> None:
        proc.tree.rename(source, target, proc.cwd)

    def exists(path: str) -> bool:
        try:
            proc.tree.find(path, proc.cwd)
        except OSError:
            return False
        return True

    numbers = {
        name: pure(name, getattr(math, name))
        for name in (
            "ceil",
            "cos",
            "exp",
            "floor",
            "gcd",
            "isnan",
            "log",
            "log10",
            "sin",
            "sqrt",
            "tan",
        )
    }
    path = Module("os.path", {"exists": pure("exists", exists), "join": pure("join", os.path.join)})
    return {
        "json": Module(
            "json", {"dumps": pure("dumps", json.dumps), "loads": pure("loads", json.loads)}
        ),
        "math": Module("math", {**numbers, "pi": math.pi, "e": math.e, "inf": math.inf}),
        "os": Module(
            "os",
            {
                "_exit": Native("_exit", ended),
                "environ": dict(proc.env),
                "getcwd": pure("getcwd", lambda: proc.cwd),
                "getenv": pure("getenv", getenv),
                "getpid": pure("getpid", lambda: proc.pid),
                "kill": Native("kill", kill),
                "listdir": pure("listdir", listdir),
                "path": path,
                "rename": pure("rename", rename),
            },
        ),
        "os.path": path,
        "socket": socket_module(fetch),
        "sys": Module(
            "sys",
            {
                "argv": list(proc.argv[1:]) or [""],
                "exit": Native("exit", _exit),
                "executable": "/usr/bin/python3",
                "stderr": File(2, writes=True, binary=False),
                "stdin": File(0, writes=False, binary=False),
                "stdout": File(1, writes=True, binary=False),
            },
        ),
        "time": Module(
            "time",
            {
                "monotonic": pure("monotonic", proc.kernel.now),
                "perf_counter": pure("perf_counter", proc.kernel.now),
                "sleep": Native("sleep", sleep),
                "time": pure("time", proc.tree.now),
            },
        ),
        "urllib": Module(
            "urllib", {"request": Module("urllib.request", {"urlopen": Native("urlopen", urlopen)})}
        ),
        "urllib.request": Module("urllib.request", {"urlopen": Native("urlopen", urlopen)}),
    }


class Ended(Exception):
    """``os._exit()``."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status
