"""Carries a byte stream between a command's stdin and stdout and the guest, inside the sandbox.

E2B hands a command's stdin over byte by byte, but decodes its stdout as UTF-8 and replaces what
is not. So each byte goes out as the character of that number, which UTF-8 carries unharmed: one
byte for ASCII, two for the rest.

It is run with a JSON object in ``REQUEST`` and the source of the guest in ``GUEST``. First it
writes one line of JSON; all after that is the guest's. The guest is a process of its own, and
outlives this one: whoever is killed here cuts one connection to it, which ends the commands that
were started over that connection, and nothing else.
"""

# Runs on any Python from 3.8 on, where nothing is imported that can be done without.

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import signal
import socket
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    REQUEST: dict[str, str] = {}
    GUEST = ""

CHUNK = 1 << 16
MARK = "SANDBOXIO_SANDBOX"  # in the environment of every command
SUFFIX = ".pyc"  # of the guest's program, beside its socket
FRESH = ".new"  # of a socket that does not listen yet
JOIN_BOUND = 10.0  # seconds for a guest to appear that another process is starting
SWEEP_BOUND = 2.0  # seconds to kill what a dead guest left behind
PAUSE = 0.01


def connect(path: str) -> socket.socket | None:
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
        sweep(path)  # there was a guest, and what it ran has lost its master
        os.unlink(path)
    if os.path.lexists(path + FRESH):
        os.unlink(path + FRESH)  # of a start that was cut off
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path + FRESH)
    listener.listen(16)
    os.rename(path + FRESH, path)  # so that what is there listens, unless its guest has ended
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        become_guest(path, theirs, listener)
    listener.close()
    theirs.close()
    return ours


def become_guest(path: str, theirs: socket.socket, listener: socket.socket) -> NoReturn:
    """Turn this process into a guest."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    descriptors = (theirs.detach(), listener.detach())
    for fd in descriptors:
        os.set_inheritable(fd, True)
    os.environ[MARK] = os.path.basename(path)
    arguments = ["in=%d" % descriptors[0], "out=%d" % descriptors[0], "listen=%d" % descriptors[1]]
    # Executed, not merely forked: every command begins with a fork of the guest, and the less that
    # has in memory, the quicker they are.
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", compiled(path), *arguments])


def compiled(path: str) -> str:
    """Write the guest's program in the form that starts fastest, and return where."""
    program = path + SUFFIX
    if os.path.lexists(program):
        os.unlink(program)
    code = marshal.dumps(compile(GUEST, "guest", "exec"))
    fd = os.open(program, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as file:
        # Flags, time and size of a source, which nobody compares when it is run.
        file.write(importlib.util.MAGIC_NUMBER + bytes(12) + code)
    return program


def sweep(path: str) -> None:
    """Kill what an ended guest left: whatever it had started, background processes included.

    That is what runs its program (the guest's supervisors), what has the guest's mark in its
    environment, and all below either. While a supervisor lives, nothing gets away from it.
    """
    program = (path + SUFFIX).encode()
    mark = ("%s=%s" % (MARK, os.path.basename(path))).encode()
    stop = time.monotonic() + SWEEP_BOUND
    while time.monotonic() < stop:
        parents: dict[int, int] = {}
        roots: set[int] = set()
        supervisors: set[int] = set()
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open("/proc/%s/stat" % entry, "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                with open("/proc/%s/cmdline" % entry, "rb") as file:
                    alike = program in file.read().split(b"\0")
            except OSError:
                continue
            try:
                with open("/proc/%s/environ" % entry, "rb") as file:
                    marked = mark in file.read().split(b"\0")
            except OSError:
                marked = False  # somebody else's
            if fields[0] != b"Z":
                parents[int(entry)] = int(fields[1])
                if alike or marked:
                    roots.add(int(entry))
                if alike:
                    supervisors.add(int(entry))
        doomed = set(roots)
        while True:
            more = {pid for pid, parent in parents.items() if parent in doomed} - doomed
            if not more:
                break
            doomed |= more
        if not doomed:
            return
        for pid in sorted(doomed, key=lambda pid: pid in supervisors):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(PAUSE)
    raise SystemExit("what an ended guest left cannot be killed")


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
    started = sock is None and REQUEST["mode"] == "start"
    if sock is None and REQUEST["mode"] == "start":
        sock = start(path)
    stop = time.monotonic() + JOIN_BOUND
    while sock is None and time.monotonic() < stop:
        there = os.path.lexists(path)  # before the look at it, because it may come between the two
        sock = connect(path)
        if there:
            break
        time.sleep(PAUSE)  # its creator is about to start it
    home = os.environ.get("PWD", "")
    if not os.path.isabs(home) or not os.path.isdir(home):
        home = os.getcwd()
    first: dict[str, Any] = {"joined": not started, "found": sock is not None, "home": home}
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
