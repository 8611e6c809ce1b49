"""The calls a program makes first: `create`, `connect`, `register`."""

from __future__ import annotations

from .targets import connect, create, register

__all__ = ["connect", "create", "register"]
