"""The program that runs inside a sandbox, and the host's side of its channel (see PROTOCOL.md)."""

from __future__ import annotations

from .channel import GuestChannel, GuestInit
from .sandbox import GuestSandbox
from .source import GUEST_PROGRAM, guest_bytecode
from .transport import SocketTransport, Transport

__all__ = [
    "GUEST_PROGRAM",
    "GuestChannel",
    "GuestInit",
    "GuestSandbox",
    "SocketTransport",
    "Transport",
    "guest_bytecode",
]
