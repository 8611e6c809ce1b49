"""The thread between a TLS connection and a plain socket, against TLS of the standard library."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

from sandboxio_docker._tls import Secured

BOUND = 20.0
"""Seconds for what takes milliseconds; the machine may be busy."""


def test_end_of_input_loses_no_output(certificates: dict[str, Path]) -> None:
    """Output that is there when a command's stdin ends comes, and so does what follows it."""
    folder = certificates["ours"]
    near, far = socket.socketpair()
    plain, ours = socket.socketpair()
    for sock in (near, far, ours):
        sock.settimeout(BOUND)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server-cert.pem", folder / "server-key.pem")
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    heard: list[bytes] = []
    all_sent = threading.Event()

    def serve() -> None:
        with server.wrap_socket(far, server_side=True) as sock:
            for line in (b"1\n", b"2\n", b"3\n"):
                sock.sendall(line)
            all_sent.set()
            heard.append(sock.recv(100))
            sock.sendall(b"4\n")

    serving = threading.Thread(target=serve)
    serving.start()
    secured = Secured(near, client, "127.0.0.1")
    secured.shake_hands()
    assert all_sent.wait(BOUND)
    ours.shutdown(socket.SHUT_WR)  # before it is looked for, so that both are seen at once
    pumping = threading.Thread(target=secured.pump, args=(plain,))
    pumping.start()
    said = b""
    with ours:
        while data := ours.recv(100):
            said += data
    pumping.join(BOUND)
    serving.join(BOUND)
    assert not pumping.is_alive()
    assert not serving.is_alive()
    assert said == b"1\n2\n3\n4\n"
    assert heard == [b""]
