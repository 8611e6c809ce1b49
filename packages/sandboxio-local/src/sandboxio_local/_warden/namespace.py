"""A user namespace for a sandbox whose creator is root, so that nothing inside is root outside.

Its only user is an id of the host that nobody has, owns nothing and may do what any stranger may.
Bubblewrap starts in it and makes its own namespaces below, as for any user without rights.
"""

# What these rules ask for (pathlib, contextlib) takes longer to import than all the rest here.
# ruff: noqa: PTH102, PTH116, PTH120, PTH123
from __future__ import annotations

import ctypes
import os
import stat

from sandboxio_local._warden.waiting import Failed, Waiting

__all__ = ["die_with_parent", "enter", "give_id", "join"]

MAP_BOUND = 5.0
"""Seconds for the child to reach its namespace; it takes about one millisecond."""

_NEWNS = 0x00020000
_NEWUSER = 0x10000000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000
_MS_NOSUID = 0x2
_MS_NODEV = 0x4
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9
_TUN = "/dev/net/tun"


def enter(stage: list[str], tell: int, go: int) -> None:
    """Enter a new user namespace as its only user; runs in the child that becomes bubblewrap.

    Args:
        stage: Paths that only the host's root may reach. Each is bound to ``/tmp/0``, ``/tmp/1``…
            in a mount namespace of this child's own, where the ids of the namespace find it.
        tell: Written to when the namespace exists.
        go: Read from until its user is given.
    """
    _own_mounts()
    # Opened before the next mount hides those of them that are below /tmp.
    sources = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in stage]
    _mount(b"tmpfs", b"/tmp", b"tmpfs", _MS_NOSUID | _MS_NODEV, b"mode=755,size=64k")
    for number, source in enumerate(sources):
        target = b"/tmp/%d" % number
        os.mkdir(target, 0o755)
        _mount(b"/proc/self/fd/%d" % source, target, None, _MS_BIND | _MS_REC, b"")
    _call("unshare", _NEWUSER)
    os.write(tell, b"u")
    if os.read(go, 1) != b"g":
        raise OSError(0, "the warden is gone")
    _become_its_root()


def join(namespace: int) -> None:
    """Enter the user namespace of a sandbox as its only user; runs in the child of a helper.

    The helper then handles what hostile code sends with no right on the host at all.
    """
    _own_mounts()
    # Some hosts keep it for root. Our own node of it gives away no more than what there is in the
    # network namespaces that one may enter anyway.
    if not os.stat(_TUN).st_mode & 0o002:
        _mount(b"tmpfs", os.path.dirname(_TUN).encode(), b"tmpfs", _MS_NOSUID, b"mode=755,size=64k")
        os.umask(0)
        os.mknod(_TUN, stat.S_IFCHR | 0o666, os.makedev(10, 200))
    _call("setns", namespace, _NEWUSER)
    _become_its_root()


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, until it changes its user."""
    _call("prctl", _PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def _own_mounts() -> None:
    _call("unshare", _NEWNS)
    _mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, b"")


def _become_its_root() -> None:
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source, target, kind, ctypes.c_ulong(flags), data) != 0:
        raise OSError(
            ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"mount {target.decode()}"
        )


def give_id(waiting: Waiting, pid: int, uid: int, told: int, go: int) -> None:
    """Make an id of the host the user of a child's namespace; runs in the warden."""
    if told not in waiting.until(told, bound=MAP_BOUND) or os.read(told, 1) != b"u":
        raise Failed("namespace", "the child made no user namespace")
    mapping = b"0 %d 1\n" % uid
    try:
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "wb", buffering=0) as file:
                file.write(mapping)
    except OSError as error:
        raise Failed("namespace", f"the id could not be mapped: {error.strerror}") from error
    os.write(go, b"g")
