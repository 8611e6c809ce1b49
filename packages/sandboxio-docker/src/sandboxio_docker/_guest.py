"""How the guest is started in a container, and how a second host reaches it."""

from __future__ import annotations

from functools import cache
from importlib.util import MAGIC_NUMBER

from sandboxio.spi import GUEST_PROGRAM, guest_bytecode

__all__ = ["INTERPRETER", "LISTENER", "guest_command", "guest_program", "relay_command"]

INTERPRETER = ("python3", "-I", "-S", "-B", "-W", "ignore", "-c")
"""Isolated, without site, so that nothing of the image's runs in the guest."""

WATCHDOG_GRACE = 5.0
"""Seconds beyond the lifetime after which a guest that hangs is ended. A thread in C does it, whatever
the interpreter is busy with; as the guest is PID 1, that ends the container."""

LISTENER = b"\0sandboxio-guest"
"""Where a guest listens for further hosts, in the container's network namespace."""

# What it runs comes first on its stdin, and not in its arguments, which the engine writes to its disk
# several times. It ends when its creator does before that has come.
# The socket for further hosts has no name in the file system, and lives in the container's own
# network namespace. What runs in the container may connect too: it gets nothing that it has not.
PRELUDE = f"""\
import faulthandler, sys, _socket
faulthandler.dump_traceback_later(float(sys.argv.pop(1)), exit=True, file=2)
listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
listener.bind({LISTENER!r})
listener.listen(16)
sys.argv.append("listen=%d" % listener.detach())
import marshal, os
from _frozen_importlib_external import MAGIC_NUMBER
def take(size):
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data
magic, *sizes = take(4), take(4), take(4)
bytecode, source = (take(int.from_bytes(size, "big")) for size in sizes)
same = magic == MAGIC_NUMBER
exec(marshal.loads(bytecode) if same else compile(source, "sandboxio-guest", "exec"))
"""

RELAY = f"""\
import os, _socket, _thread
peer = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
peer.connect({LISTENER!r})
def inward():
    try:
        while True:
            data = os.read(0, 262144)
            if not data:
                break
            peer.sendall(data)
    finally:
        peer.shutdown(_socket.SHUT_RDWR)
_thread.start_new_thread(inward, ())
while True:
    data = peer.recv(262144)
    if not data:
        os._exit(0)
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
"""


@cache
def guest_program() -> bytes:
    """Return what a container's first process reads first: the guest, compiled and as text."""
    compiled, source = guest_bytecode(), GUEST_PROGRAM.read_bytes()
    sizes = b"".join(len(part).to_bytes(4, "big") for part in (compiled, source))
    return MAGIC_NUMBER + sizes + compiled + source


def guest_command(lifetime: float) -> list[str]:
    """Return the command that is a container's first process."""
    watchdog = f"{lifetime + WATCHDOG_GRACE:.3f}"
    return [*INTERPRETER, PRELUDE, watchdog, "in=0", "out=1"]


def relay_command() -> list[str]:
    """Return the command that connects its stdin and stdout to the guest of its container."""
    return [*INTERPRETER, RELAY]
