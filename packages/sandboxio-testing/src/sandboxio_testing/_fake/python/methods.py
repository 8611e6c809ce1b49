"""Attributes and methods of modelled values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..process import Proc
from .sockets import Socket, socket_attribute
from .values import CannotModel, File, Module, Native, Opaque, Raised, Value, checked_format, pure

__all__ = ["attribute", "enter"]

METHODS: dict[type[object], frozenset[str]] = {
    str: frozenset(
        [
            "capitalize",
            "casefold",
            "count",
            "encode",
            "endswith",
            "find",
            "index",
            "isalnum",
            "isalpha",
            "isdigit",
            "islower",
            "isspace",
            "isupper",
            "join",
            "lower",
            "lstrip",
            "partition",
            "removeprefix",
            "removesuffix",
            "replace",
            "rfind",
            "rpartition",
            "rsplit",
            "rstrip",
            "split",
            "splitlines",
            "startswith",
            "strip",
            "swapcase",
            "title",
            "upper",
        ]
    ),
    bytes: frozenset("decode endswith find hex split startswith strip".split()),  # noqa: SIM905
    bytearray: frozenset({"decode", "hex"}),
    list: frozenset("append clear copy count extend index insert pop remove reverse sort".split()),  # noqa: SIM905
    dict: frozenset("clear copy get items keys pop setdefault update values".split()),  # noqa: SIM905
    set: frozenset("add clear copy difference discard intersection remove union".split()),  # noqa: SIM905
    tuple: frozenset({"count", "index"}),
    int: frozenset({"bit_length"}),
    float: frozenset({"is_integer"}),
}


def attribute(value: Any, name: str) -> Any:
    """Return an attribute, if it is one that the fake knows."""
    if isinstance(value, Module):
        if name not in value.attributes:
            raise CannotModel(f"{value.name}.{name}")
        return value.attributes[name]
    if isinstance(value, File):
        return _of_file(value, name)
    if isinstance(value, Socket):
        return socket_attribute(value, name)
    if isinstance(value, str) and name == "format":
        return pure("format", lambda *args: _formatted(value, args))
    if isinstance(value, BaseException) and name in ("args", "code", "errno"):
        return getattr(value, name)
    return _method(value, name)


def _method(value: Any, name: str) -> Native:
    kind = _kind(value)
    if kind is list and name in ("append", "insert"):
        # Anything at all can be added, values too big to be kept included.
        return Native(name, lambda proc, args, keywords: _added(getattr(value, name), args))
    if name in METHODS.get(kind, ()):
        return pure(name, getattr(value, name))
    if hasattr(value, name) or kind in (Native, Opaque):
        raise CannotModel(f"the attribute {name}")
    raise Raised(AttributeError(f"{kind.__name__!r} object has no attribute {name!r}"))


def _kind(value: object) -> type[object]:
    return type(value)


def _added(add: Callable[..., None], args: list[Any]) -> Value:
    yield from ()
    add(*args)
    return None


def _formatted(template: str, args: tuple[Any, ...]) -> str:
    if "." in template or "[" in template:
        raise CannotModel("str.format() with more than plain fields")
    return checked_format(template).format(*args)


def enter(value: Any) -> File | Socket:
    """Return what a ``with`` statement gives to its block."""
    if not isinstance(value, (File, Socket)):
        raise CannotModel("with on such a value")
    return value


def _of_file(file: File, name: str) -> Any:
    if name in ("status", "code") and file.data is not None:
        return 200
    methods = {"close": _close, "flush": _flush, "read": _read, "write": _write}
    if (
        name not in methods
        or (name == "write") > file.writes
        or (name == "read") > (not file.writes)
    ):
        raise CannotModel(f"the attribute {name} of a file")
    method = methods[name]
    return Native(name, lambda proc, args, keywords: method(proc, file, args))


def _close(proc: Proc, file: File, args: list[Any]) -> Value:
    yield from ()
    if file.fd > 2:
        proc.close(file.fd)
    file.closed = True
    return None


def _flush(proc: Proc, file: File, args: list[Any]) -> Value:
    yield from proc.tick()
    return None


def _read(proc: Proc, file: File, args: list[Any]) -> Value:
    if file.closed:
        raise Raised(ValueError("I/O operation on closed file."))
    if args:
        raise CannotModel("read() of a part")
    data = file.data
    if data is None:
        data = yield from proc.read_all(file.fd)
    else:
        file.data = b""
    return data if file.binary else data.decode("utf-8")


def _write(proc: Proc, file: File, args: list[Any]) -> Value:
    if file.closed:
        raise Raised(ValueError("I/O operation on closed file."))
    (data,) = args
    if isinstance(data, str) == file.binary or not isinstance(data, (str, bytes)):
        raise Raised(TypeError("write() argument must be str or bytes, as the file's mode says"))
    yield from proc.write(file.fd, data)
    return len(data)
