"""The descriptors of stdio, taken before anything is loaded that could print."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass

__all__ = ["Wire", "claim_wire"]


@dataclass(frozen=True)
class Wire:
    """The descriptors that carry the protocol, where nothing else finds them."""

    stdin: int
    stdout: int


def claim_wire() -> Wire:
    """Move the protocol away from descriptors 0 and 1.

    From then on stdin is at its end and stdout is stderr for everything else in this process and
    for its children: a stray ``print`` does not break the protocol.
    """
    wire = Wire(
        fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3),
        fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3),
    )
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        os.dup2(nothing, 1)
    os.close(nothing)
    return wire
