"""What the guest moves and does not copy arrives, also where the kernel can do only a part of it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from sandboxio.guest import program as wire
from sandboxio.guest.framing import FrameSplitter


class Nobody:
    """As much of a guest as a connection needs that nobody speaks on."""

    def __init__(self) -> None:
        self.private: set[int] = set()

    def watch(self, _fd: int, _events: int, _handler: object) -> None:
        """The test flushes by itself."""

    def unwatch(self, _fd: int) -> None:
        """Nothing was watched."""

    def on_closed(self, _connection: object) -> None:
        """Nothing else ends with it."""


Ends = tuple[wire.Connection, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The guest's end of a connection, and the host's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        guest: Any = Nobody()
        connection = wire.Connection(guest, os.dup(theirs.fileno()), os.dup(theirs.fileno()), True)
        yield connection, ours
        connection.close()
        assert not guest.private


def received(ends: Ends, count: int) -> list[tuple[int, int, bytes]]:
    connection, host = ends
    splitter, frames = FrameSplitter(), []
    while len(frames) < count:
        connection.flush()
        frames += splitter.feed(host.recv(1 << 16))
    return frames


def splice_that_cannot(at: int) -> Any:
    """A kernel that can move bytes out of a pipe into ours, or neither."""
    real, calls = os.splice, [0]

    def splice(source: int, target: int, size: int, flags: int = 0) -> int:
        calls[0] += 1
        if calls[0] == at:
            raise OSError(errno.EINVAL, "")
        return real(source, target, size, flags=flags)

    return splice


@pytest.mark.parametrize("fails_at", [0, 1, 2, 3])
def test_what_was_moved_arrives_between_what_was_sent(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    connection = ends[0]
    monkeypatch.setattr(os, "splice", splice_that_cannot(fails_at))
    source, target = os.pipe()
    os.set_blocking(source, False)
    expected = []
    try:
        for ident in range(1, 5):
            connection.send(wire.ERR, ident, b"copied")
            expected.append((wire.ERR, ident, b"copied"))
            data = bytes([ident]) * 50000
            os.write(target, data)
            moved = connection.send_moved(wire.OUT, ident, source, len(data))
            if not moved:
                connection.send(wire.OUT, ident, os.read(source, len(data)))
            expected.append((wire.OUT, ident, data))
        assert received(ends, len(expected)) == expected
        assert connection.unsent_size == 0
        assert connection.moves == (fails_at == 0)
    finally:
        os.close(source)
        os.close(target)
