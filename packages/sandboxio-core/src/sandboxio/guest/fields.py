"""Fields of what a guest sends: hostile until each was checked for its type here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from . import program as wire

__all__ = [
    "BIGGEST",
    "FARTHEST",
    "LONGEST_AGO",
    "Fields",
    "bounded",
    "decode_fields",
    "items",
    "number",
    "raw",
    "text",
]

Fields = Mapping[bytes, object]

MAX_VALUES = 1 << 14
"""Values in one payload, so that a small frame cannot become many objects."""

BIGGEST = (1 << 63) - 1
"""Sizes and times beyond it overflow what the operating system takes."""

LONGEST_AGO, FARTHEST = -(1 << 48), 1 << 48
"""Milliseconds since the epoch that a file's time may have: 8,900 years either way."""


def decode_fields(payload: bytes, limit: int = MAX_VALUES) -> Fields:
    """Decode a control payload of at most `limit` values."""
    value: object = wire.decode(payload, limit) if payload else {}
    if not isinstance(value, dict):
        raise wire.Malformed("not a dictionary")
    return cast("Fields", value)


def number(fields: Fields, key: bytes, low: int = 0, high: int = BIGGEST) -> int:
    """Return a field that must be an integer from `low` to `high`."""
    return bounded(fields.get(key), key, low, high)


def bounded(value: object, what: object, low: int, high: int) -> int:
    """Return a value that must be an integer from `low` to `high`."""
    if not isinstance(value, int) or not low <= value <= high:
        raise wire.Malformed(f"{what!r} is no number from {low} to {high}")
    return value


def raw(fields: Fields, key: bytes) -> bytes:
    """Return a field that must be a string."""
    value = fields.get(key)
    if not isinstance(value, bytes):
        raise wire.Malformed(f"{key!r} is no string")
    return value


def text(fields: Fields, key: bytes) -> str:
    """Return a string field as text."""
    return raw(fields, key).decode("utf-8", "surrogateescape")


def items(fields: Fields, key: bytes) -> list[object]:
    """Return a field that must be a list."""
    value = fields.get(key)
    if not isinstance(value, list):
        raise wire.Malformed(f"{key!r} is no list")
    return cast("list[object]", value)
