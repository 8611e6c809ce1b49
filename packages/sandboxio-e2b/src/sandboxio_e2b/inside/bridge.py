"""Carries a byte stream between a command's stdin and stdout and the guest, inside the sandbox.

E2B hands a command's stdin over byte by byte, but decodes its stdout as UTF-8 and replaces what
is not. So each byte goes out as the character of that number, which UTF-8 carries unharmed: one
byte for ASCII, two for the rest.

It is run with a JSON object in ``REQUEST`` and the source of the guest in ``GUEST``. First it
writes one line of JSON; all after that is the guest's. The guest is a process of its own, and
outlives this one: whoever is killed here cuts one connection to it, which ends the commands that
were started over that connection, and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Set

    REQUEST: Dict[str, str] = {}
    GUEST = ""

CHUNK = 1 << 16
SWEEP_BOUND = 2.0  # seconds to kill what a dead guest left behind
PAUSE = 0.01


def connect(path: str) -> Optional[socket.socket]:
    """Return a connection to a guest that runs, or None."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        return None
    return sock


def start(path: str) -> socket.socket:
    """Start a guest and return the connection that it serves first."""
    folder = os.path.dirname(path)
    os.makedirs(folder, 0o700, exist_ok=True)
    if os.lstat(folder).st_uid != os.getuid():
        raise SystemExit("the guest's directory belongs to somebody else")
    if os.path.lexists(path):
        sweep()  # there was a guest here, and what it ran has lost its master
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(16)
    ours, theirs = socket.socketpair()
    if os.fork():
        listener.close()
        theirs.close()
        return ours
    ours.close()
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    arguments = ["in=%d" % theirs.fileno(), "out=%d" % theirs.fileno()]
    arguments.append("listen=%d" % listener.fileno())
    theirs.detach()
    listener.detach()
    space: Dict[str, Any] = {"__name__": "guest"}
    exec(compile(GUEST, "guest", "exec"), space)
    space["main"](arguments)
    os._exit(0)


def sweep() -> None:
    """Kill what an ended guest left: its supervisors, which look like this process, and all below."""
    with open("/proc/self/cmdline", "rb") as file:
        ours = file.read()
    stop = time.monotonic() + SWEEP_BOUND
    while time.monotonic() < stop:
        parents: Dict[int, int] = {}
        roots: Set[int] = set()
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                with open("/proc/%s/cmdline" % name, "rb") as file:
                    alike = file.read() == ours
            except OSError:
                continue
            if fields[0] != b"Z":
                parents[int(name)] = int(fields[1])
                if alike:
                    roots.add(int(name))
        doomed = set(roots)
        while True:
            more = {pid for pid, parent in parents.items() if parent in doomed} - doomed
            if not more:
                break
            doomed |= more
        if not doomed:
            return
        # Supervisors last: while one lives, what it supervises cannot get away from it.
        for pid in sorted(doomed, key=lambda pid: pid in roots):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(PAUSE)


def outwards(sock: socket.socket) -> None:
    """Relay what the guest says, until it has nothing more to say."""
    while True:
        data = sock.recv(CHUNK)
        if not data:
            os._exit(0)
        view = memoryview(data.decode("latin-1").encode())
        while view:
            view = view[os.write(1, view) :]


def main() -> None:
    """Relay until either side ends."""
    path = REQUEST["socket"]
    sock = connect(path)
    joined = sock is not None
    if sock is None and REQUEST["mode"] == "start":
        sock = start(path)
    home = os.environ.get("PWD", "")
    if not os.path.isabs(home) or not os.path.isdir(home):
        home = os.getcwd()
    first: Dict[str, Any] = {"joined": joined, "found": sock is not None, "home": home}
    first["version"] = list(sys.version_info[:2])
    os.write(1, json.dumps(first).encode() + b"\n")
    if sock is None:
        return
    threading.Thread(target=outwards, args=(sock,), daemon=True).start()
    while True:
        data = os.read(0, CHUNK)
        if not data:
            os._exit(0)
        sock.sendall(data)


main()
