"""Connections to the engine that become byte streams: attach and exec.

The SDK makes these too, but hands out what is below its HTTP client, where bytes that this has
already read are lost. So the upgrade is made here, over a socket of our own. It blocks, and runs in
a worker thread; what it returns is an ordinary socket.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
from urllib.parse import urlsplit

from sandboxio.errors import ConfigurationError

from ._endpoint import Endpoint, Tls
from ._tls import Secured

__all__ = ["Refusal", "dial", "upgrade"]

DIAL_TIMEOUT = 20.0
"""Seconds to connect and to get the answer's head, which an engine that works sends at once."""

MAX_HEAD = 1 << 16
"""Bytes that the head of an answer, or the text of a refusal, may have."""

UPGRADED = (101, 200)


class Refusal(Exception):
    """The engine answered, and not with a stream."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status
        self.text = text


def dial(endpoint: Endpoint) -> socket.socket:
    """Connect to the engine; blocks for at most `DIAL_TIMEOUT`.

    Raises:
        OSError: It cannot be reached.
        ConfigurationError: No stream can be had over this kind of address.
    """
    parts = urlsplit(endpoint.url)
    if endpoint.unix_path is not None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(DIAL_TIMEOUT)
            sock.connect(endpoint.unix_path)
        except BaseException:
            sock.close()
            raise
        return sock
    if parts.scheme == "ssh":
        return _over_ssh(parts.hostname or "", parts.username, parts.port)
    if parts.scheme == "tcp":
        port = parts.port or (2376 if endpoint.tls else 2375)
        sock = socket.create_connection((parts.hostname or "", port), timeout=DIAL_TIMEOUT)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A host that vanished without a word must not hold a call for ever.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if endpoint.tls is not None:
                return _over_tls(sock, endpoint.tls, parts.hostname or "")
        except BaseException:
            sock.close()
            raise
        return sock
    raise ConfigurationError(
        f"sandboxio cannot stream over {endpoint}.",
        hint="Use a unix://, tcp:// or ssh:// address of the engine.",
    )


def _over_tls(sock: socket.socket, tls: Tls, host: str) -> socket.socket:
    context = ssl.create_default_context(cafile=tls.ca)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert and tls.key:
        context.load_cert_chain(tls.cert, tls.key)
    secured = Secured(sock, context, host)
    secured.shake_hands()
    ours, theirs = socket.socketpair()
    # It ends with either side, and must not keep the interpreter alive.
    threading.Thread(target=secured.pump, args=(theirs,), name="sandboxio-tls", daemon=True).start()
    ours.settimeout(DIAL_TIMEOUT)
    return ours


def _over_ssh(host: str, user: str | None, port: int | None) -> socket.socket:
    """Connect as the Docker CLI does: its own program on the far side talks to the engine."""
    program = shutil.which("ssh")
    if program is None:
        raise ConfigurationError(
            "The address of the engine is ssh://, and there is no ssh program.",
            hint="Install an OpenSSH client.",
        )
    command = [program, "-T", "-o", f"ConnectTimeout={int(DIAL_TIMEOUT)}"]
    command += ["-l", user] if user else []
    command += ["-p", str(port)] if port else []
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                [*command, "--", host, "docker system dial-stdio"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    # It ends when our socket does; somebody has to take its exit code then.
    threading.Thread(target=process.wait, name="sandboxio-ssh", daemon=True).start()
    ours.settimeout(DIAL_TIMEOUT)
    return ours


def upgrade(sock: socket.socket, path: str, body: object = None) -> bytes:
    """POST, turn the connection into a stream, and return what arrived of that already.

    Raises:
        Refusal: The engine answered otherwise.
        OSError: The connection ended.
    """
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    sock.sendall(head.encode("ascii") + content)
    answer = bytearray()
    while b"\r\n\r\n" not in answer:
        if len(answer) > MAX_HEAD:
            raise ConnectionError("the engine's answer has no end")
        answer += _some(sock)
    header, _, rest = bytes(answer).partition(b"\r\n\r\n")
    words = header.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise ConnectionError("what answers is no Docker Engine")
    status = int(words[1])
    if status in UPGRADED:
        sock.settimeout(None)
        return rest
    raise Refusal(status, _refusal(sock, header, rest))


def _some(sock: socket.socket) -> bytes:
    data = sock.recv(MAX_HEAD)
    if not data:
        raise ConnectionError("the engine closed the connection")
    return data


def _refusal(sock: socket.socket, header: bytes, rest: bytes) -> str:
    length = 0
    for line in header.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = min(int(value), MAX_HEAD)
    while len(rest) < length:
        rest += _some(sock)
    try:
        answer: object = json.loads(rest)
    except ValueError:
        return rest.decode("utf-8", "replace")
    message: object = answer.get("message") if isinstance(answer, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return message if isinstance(message, str) else rest.decode("utf-8", "replace")
