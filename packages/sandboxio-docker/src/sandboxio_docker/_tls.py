"""A thread between a TLS connection and a plain socket, so that all else sees plain sockets only."""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import suppress

__all__ = ["Secured"]

CHUNK = 1 << 17

LEFT = select.POLLHUP | select.POLLERR


class Secured:
    """A TLS connection over a socket that is connected.

    TLS is done in memory and not by the socket: only so can one side say that it has no more to send,
    which is how a command's stdin ends, and still read what the other side sends.

    Args:
        sock: Connected, with a timeout. It is closed with the connection.
        context: What is trusted, and who we are.
        host: Whom the other side has to be.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._sock = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._encrypted = memoryview(b"")
        self._plaintext = memoryview(b"")
        self._finished = False
        """Whether we have said that we send no more."""
        self._received_all = False

    def shake_hands(self) -> None:
        """Do so; blocks for as long as the socket's timeout.

        Raises:
            OSError: The other side is not whom it has to be, or does not want us, or is gone.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._sock.sendall(self._outgoing.read())
                data = self._sock.recv(CHUNK)
                if not data:
                    raise ConnectionError("the engine closed the connection") from None
                self._incoming.write(data)
            else:
                self._sock.sendall(self._outgoing.read())
                return

    def pump(self, plain: socket.socket) -> None:
        """Copy both ways until either side has ended, then close both."""
        with self._sock, plain, suppress(OSError):
            self._sock.setblocking(False)
            plain.setblocking(False)
            here = True
            while self._decrypt() and (here or self._has_to_send()):
                poll = select.poll()
                if not self._received_all:  # or its end would be told again and again
                    poll.register(
                        self._sock,
                        (0 if self._plaintext else select.POLLIN)
                        | (select.POLLOUT if self._has_to_send() else 0),
                    )
                if here:
                    reads = not (self._finished or self._encrypted)
                    poll.register(
                        plain,
                        (select.POLLIN if reads else 0)
                        | (select.POLLOUT if self._plaintext else 0),
                    )
                events = dict(poll.poll())
                self._exchange(events.get(self._sock.fileno(), 0))
                here = here and self._serve(plain, events.get(plain.fileno(), 0))

    def _has_to_send(self) -> bool:
        if not self._encrypted and self._outgoing.pending:
            self._encrypted = memoryview(self._outgoing.read(CHUNK))
        return bool(self._encrypted)

    def _decrypt(self) -> bool:
        """Have something for the plain side if there is; say whether there may be more."""
        if not self._plaintext:
            try:
                data = self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                return True
            except ssl.SSLError:
                return False
            self._plaintext = memoryview(data)
            return bool(data)
        return True

    def _exchange(self, events: int) -> None:
        if events & select.POLLOUT:
            self._encrypted = self._encrypted[self._sock.send(self._encrypted) :]
        if events & (select.POLLIN | LEFT):
            data = self._sock.recv(CHUNK)
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()
                self._received_all = True

    def _serve(self, plain: socket.socket, events: int) -> bool:
        """Take from the plain side and give to it; say whether it is still there."""
        if events & select.POLLOUT:
            self._plaintext = self._plaintext[plain.send(self._plaintext) :]
        if events & select.POLLIN:
            data = plain.recv(CHUNK)
            if data:
                self._tls.write(data)
                return True
            self._finished = True
            self._say_the_end()
        return not events & LEFT

    def _say_the_end(self) -> None:
        """Tell the other side that we send no more; it may still send."""
        if self._received_all:
            return
        # `unwrap` also looks for the other side's end, and breaks the connection for good when it
        # finds data instead: so it finds nothing.
        unread = self._incoming.read()
        with suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        self._incoming.write(unread)
