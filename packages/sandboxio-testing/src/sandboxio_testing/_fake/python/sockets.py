"""The part of the module ``socket`` that modelled code can use."""

from __future__ import annotations

import socket as host_socket
from dataclasses import dataclass
from typing import Any

from ..handles import pipe
from ..internet import Reply
from ..process import Proc, Wait, encode
from ..programs.network import Fetch
from ..sockets import LOOPBACK, Connection, Listener
from .values import CannotModel, Module, Native, Raised, Value, reason

__all__ = ["Socket", "socket_attribute", "socket_module"]

CONSTANTS = (
    *("AF_INET", "AF_INET6", "AF_UNIX", "IPPROTO_ICMP"),
    *("SOCK_DGRAM", "SOCK_RAW", "SOCK_STREAM"),
)


@dataclass
class Socket:
    """A socket; what it is connected to, or listens on."""

    fetch: Fetch
    kind: str
    port: int = 0
    connection: Connection | None = None
    listener: Listener | None = None

    def close(self, proc: Proc) -> None:
        """Close it."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.listener is not None:
            proc.kernel.ports.listeners.pop(self.listener.port, None)
            self.listener = None


def socket_module(fetch: Fetch) -> Module:
    """Return the module for one machine."""

    def make(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
        yield from ()
        family = args[0] if args else keywords.get("family", CONSTANTS[0])
        kind = args[1] if len(args) > 1 else keywords.get("type", CONSTANTS[-1])
        if kind == "SOCK_RAW":
            raise Raised(PermissionError(1, "Operation not permitted"))
        if family == "AF_UNIX":
            return Socket(fetch, "unix")
        return Socket(fetch, "udp" if kind == "SOCK_DGRAM" else "tcp")

    def create_connection(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
        made = Socket(fetch, "tcp")
        yield from _connect(proc, made, args[:1])
        return made

    def getaddrinfo(proc: Proc, args: list[Any], keywords: dict[str, Any]) -> Value:
        yield from proc.tick()
        answer = fetch(proc, f"dns://{args[0]}")
        if isinstance(answer, Reply) and answer is not Reply.REFUSED:
            raise Raised(host_socket.gaierror(-3, "Temporary failure in name resolution"))
        return [("AF_INET", "SOCK_STREAM", 6, "", ("192.0.2.1", args[1] if len(args) > 1 else 0))]

    return Module(
        "socket",
        {
            **{name: name for name in CONSTANTS},
            "create_connection": Native("create_connection", create_connection),
            "getaddrinfo": Native("getaddrinfo", getaddrinfo),
            "socket": Native("socket", make),
        },
    )


def socket_attribute(made: Socket, name: str) -> Native:
    """Return a method of a socket."""
    if name not in _METHODS:
        raise CannotModel(f"the attribute {name} of a socket")
    method = _METHODS[name]
    return Native(name, lambda proc, args, keywords: method(proc, made, args))


def _connect(proc: Proc, made: Socket, args: list[Any]) -> Value:
    yield from proc.tick()
    if made.kind == "unix":
        raise Raised(ConnectionRefusedError(111, "Connection refused"))
    address = list(args[0])
    host, port = str(address[0]), int(address[1])
    if host in LOOPBACK:
        found = proc.kernel.ports.connect(port) if made.kind == "tcp" else None
        if found is None:
            raise Raised(ConnectionRefusedError(111, "Connection refused"))
        made.connection = found
        return None
    shown = f"[{host}]" if ":" in host else host
    answer = made.fetch(proc, f"{made.kind}://{shown}:{port}")
    if isinstance(answer, Reply):
        raise Raised(OSError(reason(answer)))
    made.connection = Connection(*pipe())  # a host of the fake internet says what it is told
    return None


def _bind(proc: Proc, made: Socket, args: list[Any]) -> Value:
    yield from ()
    made.port = int(list(args[0])[1])
    return None


def _listen(proc: Proc, made: Socket, args: list[Any]) -> Value:
    yield from proc.tick()
    made.listener = proc.kernel.ports.listen(made.port)
    if made.listener is None:
        raise Raised(OSError(98, "Address already in use"))
    return None


def _getsockname(proc: Proc, made: Socket, args: list[Any]) -> Value:
    yield from ()
    return ("127.0.0.1", made.port if made.listener is None else made.listener.port)


def _accept(proc: Proc, made: Socket, args: list[Any]) -> Value:
    listener = made.listener
    if listener is None:
        raise Raised(OSError(22, "Invalid argument"))
    yield from proc.block(Wait(lambda: bool(listener.backlog)))
    accepted = Socket(made.fetch, made.kind, connection=listener.backlog.pop(0))
    return (accepted, ("127.0.0.1", 50000))


def _sendall(proc: Proc, made: Socket, args: list[Any]) -> Value:
    rest = encode(args[0])
    handle = _open(made).outgoing
    while rest:
        yield from proc.block(Wait(handle.writable))
        try:
            rest = rest[handle.write(rest) :]
        except OSError as error:
            raise Raised(error) from None
    return None


def _recv(proc: Proc, made: Socket, args: list[Any]) -> Value:
    handle = _open(made).incoming
    yield from proc.block(Wait(handle.readable))
    return handle.read(int(args[0]))


def _open(made: Socket) -> Connection:
    if made.connection is None:
        raise Raised(OSError(107, "Transport endpoint is not connected"))
    return made.connection


def _settimeout(proc: Proc, made: Socket, args: list[Any]) -> Value:
    yield from ()  # whoever does not answer, refuses at once
    return None


def _close(proc: Proc, made: Socket, args: list[Any]) -> Value:
    yield from ()
    made.close(proc)
    return None


_METHODS = {
    "accept": _accept,
    "bind": _bind,
    "close": _close,
    "connect": _connect,
    "getsockname": _getsockname,
    "listen": _listen,
    "recv": _recv,
    "send": _sendall,
    "sendall": _sendall,
    "settimeout": _settimeout,
}
