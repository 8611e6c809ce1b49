"""Services of this host that a denied sandbox must not reach, and a proof that they are there."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

__all__ = ["Listener", "from_outside", "host_addresses", "listening", "token"]

ANSWER = 100
"""Bytes that an echo has at most."""

PROBE_BOUND = 20.0
"""Seconds that a probe may take on the host; it gives up by itself after 3."""


@dataclass
class Listener:
    """An echo service, and all that ever reached it.

    Attributes:
        kind: As `Probes.reach` names it.
        host: Address, or the name of an abstract socket.
        port: Port; 0 where there is none.
        heard: What was received.
    """

    kind: str
    host: str
    port: int
    heard: list[str] = field(default_factory=list[str])


def host_addresses(family: socket.AddressFamily = socket.AF_INET) -> list[str]:
    """Return the addresses of this host that are not its loopback."""
    found = {_address_of_default_route(family)}
    with suppress(OSError):
        found |= {str(item[4][0]) for item in socket.getaddrinfo(socket.gethostname(), 0, family)}
    if family is socket.AF_INET:
        with suppress(OSError):
            # Linux lists what is local to it: the line after an address says so.
            lines = Path("/proc/net/fib_trie").read_text().splitlines()
            found |= {
                line.rpartition(" ")[2]
                for line, after in pairwise(lines)
                if after.strip() == "/32 host LOCAL"
            }
    return sorted(text for text in found if text and not text.startswith(("127.", "::1", "fe80")))


def _address_of_default_route(family: socket.AddressFamily) -> str:
    # Connecting a datagram socket sends nothing: it only asks for a route. The addresses are those
    # that are set aside for documentation.
    anywhere = "192.0.2.1" if family is socket.AF_INET else "2001:db8::1"
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((anywhere, 9))
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
    return address


@contextmanager
def listening(kind: str, host: str) -> Generator[Listener, None, None]:
    """Run an echo service in a thread.

    Raises:
        OSError: This host does not have that address or family.
    """
    address: str | tuple[str, int] = (host, 0)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if kind == "abstract":
        family, address = socket.AF_UNIX, "\0" + host
    with socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as sock:
        sock.bind(address)
        port = 0 if kind == "abstract" else sock.getsockname()[1]
        listener = Listener(kind, host, port)
        stop = threading.Event()
        sock.settimeout(0.1)
        serve = _serve_datagrams if kind == "udp" else _serve_streams
        if kind != "udp":
            sock.listen()
        thread = threading.Thread(target=serve, args=(sock, listener, stop))
        thread.start()
        try:
            yield listener
        finally:
            stop.set()
            thread.join()


def _serve_streams(sock: socket.socket, listener: Listener, stop: threading.Event) -> None:
    while not stop.is_set():
        with suppress(OSError):
            connection, _ = sock.accept()
            with connection:
                connection.settimeout(1)
                data = connection.recv(ANSWER)
                listener.heard.append(data.decode(errors="replace"))
                connection.sendall(data)


def _serve_datagrams(sock: socket.socket, listener: Listener, stop: threading.Event) -> None:
    while not stop.is_set():
        with suppress(OSError):
            data, sender = sock.recvfrom(ANSWER)
            listener.heard.append(data.decode(errors="replace"))
            sock.sendto(data, sender)


def from_outside(command: list[str]) -> tuple[int, str]:
    """Run a probe on this host; its exit code and output."""
    program = sys.executable if command[0] == "python3" else command[0]
    done = subprocess.run(
        [program, *command[1:]],
        capture_output=True,
        text=True,
        check=False,
        timeout=PROBE_BOUND,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout


def token() -> str:
    """Return what only one probe sends."""
    return secrets.token_hex(8)
