"""As whom a sandbox runs, seen from the host: never as the host's root."""

from __future__ import annotations

import os
import socket
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandboxio.errors import CreationError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["OWN_USER", "id_for", "pick"]

OWN_USER: Final = -1
"""The sandbox runs as the user that makes it, who is not root."""

FIRST: Final = 0x7000_0000
"""Start of a range of ids that no distribution and no service manager hands out."""

COUNT: Final = 0x0FFF_FFF0

TRIES: Final = 64
"""Ids tried before giving up, should other sandboxes have taken them."""

_Ranges = list[tuple[int, int, int]]


@contextmanager
def id_for(sandbox_id: str) -> Generator[tuple[int, socket.socket | None], None, None]:
    """Yield an id of the host for a sandbox, and what keeps other sandboxes from taking it.

    The socket is bound to an abstract name made of the id, so the id is free again as soon as the
    last process that holds it is gone, however it went. It is to be handed to the warden.

    Raises:
        CreationError: This process is root, and no other id can be had.
    """
    if os.geteuid() != 0:
        yield OWN_USER, None
        return
    ranges = _ranges(Path("/proc/self/uid_map").read_text())
    groups = _ranges(Path("/proc/self/gid_map").read_text())
    if sum(length for _, _, length in ranges) == 1 and ranges[0][1] != 0:
        # Root of a namespace of its own, and an ordinary user outside of it.
        yield OWN_USER, None
        return
    for attempt in range(TRIES):
        uid = pick(sandbox_id, attempt, ranges)
        if uid is None or not _within(uid, groups):
            break
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0sandboxio-id-{uid}")
        except OSError:
            claim.close()
            continue
        with claim:
            yield uid, claim
        return
    raise CreationError(
        "This process is root, and there is no unused id that a sandbox could run as.",
        hint="Run as an ordinary user, or in a user namespace with more than 65536 ids.",
    )


def pick(sandbox_id: str, attempt: int, ranges: _Ranges) -> int | None:
    """Return an id for a sandbox, or ``None`` if the ranges have none to spare."""
    seed = zlib.crc32(sandbox_id.encode()) + attempt
    if _within(FIRST, ranges) and _within(FIRST + COUNT, ranges):
        return FIRST + seed % COUNT
    # A container with ids of its own: the upper half of its last range, where nobody should be.
    first, _, length = max(ranges)
    if length < 1 << 16:
        return None
    half = length // 2
    return first + half + seed % (half - 2)


def _ranges(text: str) -> _Ranges:
    rows = [[int(word) for word in line.split()] for line in text.splitlines()]
    return [(inside, outside, length) for inside, outside, length in rows]


def _within(uid: int, ranges: _Ranges) -> bool:
    return any(first <= uid < first + length for first, _, length in ranges)
