"""A thread between a TLS connection and a plain socket, so that all else sees plain sockets only."""

from __future__ import annotations

import select
import socket
import ssl

__all__ = ["pump"]

CHUNK = 1 << 17


def pump(secured: ssl.SSLSocket, plain: socket.socket) -> None:
    """Copy both ways until either side ends, then close both.

    One thread does both directions: an OpenSSL connection must not be used by two at once.
    """
    with secured, plain:
        secured.setblocking(False)
        plain.setblocking(False)
        outward = Direction(plain, secured)
        inward = Direction(secured, plain)
        while True:
            for direction in (outward, inward):
                direction.step()
                if direction.ended:
                    return
            wait = {outward.waits_for, inward.waits_for}
            if None in wait or secured.pending():
                continue
            poll = select.poll()
            for sock in (secured, plain):
                events = (select.POLLIN if (sock, "r") in wait else 0) | (
                    select.POLLOUT if (sock, "w") in wait else 0
                )
                poll.register(sock, events)
            poll.poll()


class Direction:
    """Bytes from one socket to another, at most `CHUNK` of them in between."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self._source = source
        self._target = target
        self._data = memoryview(b"")
        self.ended = False
        self.waits_for: tuple[socket.socket, str] | None = None

    def step(self) -> None:
        """Move what can be moved without waiting, and say what to wait for."""
        self.waits_for = None
        busy = self._source
        kind = "r"
        try:
            if not self._data:
                data = self._source.recv(CHUNK)
                if not data:
                    self.ended = True
                    return
                self._data = memoryview(data)
            busy, kind = self._target, "w"
            while self._data:
                self._data = self._data[self._target.send(self._data) :]
        except ssl.SSLWantReadError:
            self.waits_for = (busy, "r")
        except ssl.SSLWantWriteError:
            self.waits_for = (busy, "w")
        except BlockingIOError:
            self.waits_for = (busy, kind)
        except OSError:
            self.ended = True
