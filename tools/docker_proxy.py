"""Stand before the Docker Engine, and be the engine that does not do what it is asked."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

Manner = Literal["silent", "refusing", "stuck", "cutting", "faithful"]
"""What it does: answer nothing at all, refuse to remove containers, never answer that, end a
connection before it passes on `CUT`, or all that it is asked."""

CUT: Final = b"the connection ends before this"

CHUNK: Final = 1 << 16


def refusal(why: str) -> bytes:
    """Return an engine's answer that it could not do it."""
    said = b'{"message":"%s"}' % why.encode()
    return (
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said)
    )


# Its threads end when their connections do, and those when it is closed.
JOIN_SECONDS: Final = 10.0


class Proxy:
    """One such engine, at a socket of its own.

    `instead` sees what it is asked, and may answer it: the engine never hears of that.
    """

    def __init__(
        self, path: Path, manner: Manner, instead: Callable[[bytes], bytes | None] | None = None
    ) -> None:
        self._manner = manner
        self._instead = instead
        self._engine = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")[7:]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *arguments: socket.socket) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._lock:
                    self._open.add(client)
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as engine:
            with self._lock:
                self._open.add(engine)
            with suppress(OSError):
                if self._manner == "silent":
                    while client.recv(CHUNK):
                        pass
                    return
                engine.connect(self._engine)
                answers = self._start(self._answer, engine, client)
                try:
                    self._forward(client, engine)
                except OSError:
                    # Or nothing would ever wake who waits for its answer: a close does not.
                    engine.shutdown(socket.SHUT_RDWR)
                    raise
                finally:
                    answers.join()  # it ends with what the engine still says
            with self._lock:
                self._open -= {client, engine}

    def _forward(self, client: socket.socket, engine: socket.socket) -> None:
        while data := client.recv(CHUNK):
            if self._instead is not None and (answer := self._instead(data)):
                client.sendall(answer)
                break  # the engine may have heard the beginning of it
            if self._manner in ("cutting", "faithful") or not data.startswith(b"DELETE "):
                engine.sendall(data)
            elif self._manner == "refusing":
                client.sendall(refusal("this engine removes nothing"))
        engine.shutdown(socket.SHUT_WR)

    def _answer(self, engine: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := engine.recv(CHUNK):
                kept, cut, _ = (
                    data.partition(CUT) if self._manner == "cutting" else (data, b"", b"")
                )
                client.sendall(kept)
                if cut:
                    break
            client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for sock in self._open:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            threads = [*self._threads]
        for thread in threads:
            thread.join(JOIN_SECONDS)


@contextmanager
def proxies(folder: Path) -> Generator[None, None, None]:
    """Run one of each manner, at ``folder / manner``."""
    manners: tuple[Manner, ...] = ("silent", "refusing", "stuck")
    with ExitStack() as stack:
        for manner in manners:
            stack.callback(Proxy(folder / manner, manner).close)
        yield
