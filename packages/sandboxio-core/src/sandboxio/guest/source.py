"""The guest's program, as text and as what this Python makes of it."""

from __future__ import annotations

import marshal
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path

__all__ = ["GUEST_PROGRAM", "guest_bytecode"]

GUEST_PROGRAM = Path(__file__).with_name("program.py")
"""The guest's one file, to be run by a Python of the sandbox as PROTOCOL.md says."""


@cache
def guest_bytecode() -> bytes:
    """Return the guest's program as `marshal` stores it, compiled by this Python.

    Compiling takes longer than all else that the guest does when it starts. Where the sandbox has a
    Python with the same ``importlib.util.MAGIC_NUMBER``, it may run this instead of the text.

    Example:
        >>> import marshal, types
        >>> from sandboxio.spi import guest_bytecode
        >>> isinstance(marshal.loads(guest_bytecode()), types.CodeType)
        True
    """
    return marshal.dumps(SourceFileLoader("guest", str(GUEST_PROGRAM)).get_code("guest"))
