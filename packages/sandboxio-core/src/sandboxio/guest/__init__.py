"""The program that runs inside a sandbox, and the host's side of its channel (see PROTOCOL.md)."""

from __future__ import annotations

from pathlib import Path

from .channel import GuestChannel, GuestInit
from .sandbox import GuestSandbox
from .transport import SocketTransport, Transport

__all__ = [
    "GUEST_PROGRAM",
    "GuestChannel",
    "GuestInit",
    "GuestSandbox",
    "SocketTransport",
    "Transport",
]

GUEST_PROGRAM = Path(__file__).with_name("program.py")
"""The guest's one file, to be run by a Python of the sandbox as PROTOCOL.md says."""
