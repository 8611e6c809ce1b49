"""Fields of what a guest sends: hostile until each was checked for its type here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from . import program as wire

__all__ = ["Fields", "decode_fields", "items", "number", "raw", "text"]

Fields = Mapping[bytes, object]


def decode_fields(payload: bytes) -> Fields:
    """Decode a control payload."""
    value: object = wire.decode(payload) if payload else {}
    if not isinstance(value, dict):
        raise wire.Malformed("not a dictionary")
    return cast("Fields", value)


def number(fields: Fields, key: bytes) -> int:
    """Return a field that must be an integer."""
    value = fields.get(key)
    if not isinstance(value, int):
        raise wire.Malformed(f"{key!r} is no number")
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
