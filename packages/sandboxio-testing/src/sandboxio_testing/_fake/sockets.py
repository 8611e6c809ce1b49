"""Connections inside a fake sandbox, and to what its fake internet answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from .handles import Handle, PipeEnd, pipe

__all__ = ["LOOPBACK", "Connection", "Listener", "Ports", "connected"]

LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 - names, nothing is bound
FIRST_FREE = 40000


@dataclass
class Connection:
    """One side of a connection."""

    incoming: Handle
    outgoing: Handle

    def close(self) -> None:
        """Let go of it."""
        self.incoming.release()
        self.outgoing.release()


@dataclass
class Listener:
    """A port that somebody listens on, and who waits to be accepted."""

    port: int
    backlog: list[Connection] = field(default_factory=list[Connection])


@dataclass
class Ports:
    """The ports of one machine."""

    directories: dict[int, str] = field(default_factory=dict[int, str])
    """What an HTTP server shows."""
    listeners: dict[int, Listener] = field(default_factory=dict[int, Listener])

    def listen(self, port: int) -> Listener | None:
        """Listen on a port, or on a free one if it is 0; ``None`` if it is taken."""
        if port == 0:
            port = max([FIRST_FREE, *self.listeners]) + 1
        if port in self.listeners or port in self.directories:
            return None
        listener = self.listeners[port] = Listener(port)
        return listener

    def connect(self, port: int) -> Connection | None:
        """Connect to a port; ``None`` if nobody listens."""
        listener = self.listeners.get(port)
        if listener is None:
            return None
        ours, theirs = connected()
        listener.backlog.append(theirs)
        return ours


def connected() -> tuple[Connection, Connection]:
    """Return both sides of a new connection."""
    first: tuple[PipeEnd, PipeEnd] = pipe()
    second: tuple[PipeEnd, PipeEnd] = pipe()
    return Connection(first[0], second[1]), Connection(second[0], first[1])
