"""The helper that connects a sandbox's network namespace to the host's network."""

# What these rules ask for (pathlib, contextlib) takes longer to import than all the rest here.
# ruff: noqa: PTH116, PTH123, S606
from __future__ import annotations

import os
import time
from fcntl import ioctl

from sandboxio_local._warden.waiting import Failed, Waiting, restore_signals

__all__ = ["start", "wait"]

POLL_PAUSE = 0.002
"""Seconds between two looks at the routes of the sandbox; a helper needs some ten milliseconds."""

SETUP_BOUND = 10.0
"""Seconds for bubblewrap to mount everything; it takes some milliseconds."""

_NS_GET_USERNS = 0xB701
_NS_GET_PARENT = 0xB702


def start(waiting: Waiting, command: list[str], init: int, errors: int, *, enter: bool) -> int:
    """Start a helper and return its pid.

    Args:
        waiting: How to wait.
        command: Its arguments; ``{net}`` and ``{user}`` stand for paths of the sandbox's network
            namespace and of the user namespace that owns it.
        init: The sandbox's first process.
        errors: What it gets as stderr.
        enter: Whether it is to run as the sandbox's user, because the caller is root.
    """
    net = os.open(f"/proc/{init}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    # Not the one that the sandbox runs in: bubblewrap nests a second one, without rights here.
    user = ioctl(net, _NS_GET_USERNS)
    _wait_for_setup(waiting, init, user)
    pid = os.fork()
    if pid == 0:
        try:
            from sandboxio_local._warden import namespace

            namespace.die_with_parent()
            if enter:
                namespace.join(ioctl(user, _NS_GET_PARENT))
            nothing = os.open(os.devnull, os.O_RDWR)
            for source, target in ((nothing, 0), (nothing, 1), (errors, 2)):
                os.dup2(source, target)
            for fd in (net, user):
                os.set_inheritable(fd, True)
            paths = {"net": f"/proc/self/fd/{net}", "user": f"/proc/self/fd/{user}"}
            restore_signals()
            os.execve(command[0], [word.format(**paths) for word in command], {})
        except OSError as error:
            os.write(errors, f"{error.filename or 'helper'}: {error.strerror}\n".encode())
        finally:
            os._exit(70)
    os.close(net)
    os.close(user)
    return pid


def _wait_for_setup(waiting: Waiting, init: int, user: int) -> None:
    """Return when bubblewrap has set up everything, loopback included.

    Two programs that configure one network namespace at once disturb each other. Changing to the
    nested user namespace is the last thing that bubblewrap does before it waits for us.
    """
    deadline = time.monotonic() + SETUP_BOUND
    try:
        while os.path.samestat(os.stat(f"/proc/{init}/ns/user"), os.fstat(user)):
            if time.monotonic() > deadline:
                raise Failed("network", f"bubblewrap was not ready after {SETUP_BOUND:g} s")
            waiting.until(bound=POLL_PAUSE)
    except FileNotFoundError as error:
        raise Failed("bwrap", "it ended before it was ready") from error


def wait(waiting: Waiting, init: int, *, bound: float) -> None:
    """Return when the sandbox has a default route."""
    deadline = time.monotonic() + bound
    while not _has_route(init):
        if time.monotonic() > deadline:
            raise Failed("network", f"the sandbox had no route after {bound:g} s")
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            raise Failed("network", "the network helper ended at its start")
        waiting.until(bound=POLL_PAUSE)


def _has_route(init: int) -> bool:
    with open(f"/proc/{init}/net/route", "rb") as routes:
        if any(line.split()[1:2] == [b"00000000"] for line in routes):
            return True
    try:
        with open(f"/proc/{init}/net/ipv6_route", "rb") as routes:
            return any(
                line.startswith(b"0" * 32 + b" 00 ") and not line.endswith(b" lo\n")
                for line in routes
            )
    except FileNotFoundError:
        return False  # a kernel without IPv6
