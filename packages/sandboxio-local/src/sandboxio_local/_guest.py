"""The guest's program in the form that its interpreter starts fastest from."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

from sandboxio.spi import GUEST_PROGRAM, guest_bytecode

if TYPE_CHECKING:
    from sandboxio_local._python import Interpreter

__all__ = ["program"]


def program(interpreter: Interpreter) -> tuple[str, bytes]:
    """Return a file name for the guest and the file's content.

    Compiling it would be a fifth of a create. The compiled form depends on nothing but the version
    of the language, so ours serves where the sandbox has the same.
    """
    ours = (sys.implementation.name, sys.version_info[:2])
    if ours != ("cpython", interpreter.version):
        return "guest.py", GUEST_PROGRAM.read_bytes()
    # Flags, time and size of the source: zero, because nobody compares them when it is run.
    return "guest.pyc", importlib.util.MAGIC_NUMBER + bytes(12) + guest_bytecode()
