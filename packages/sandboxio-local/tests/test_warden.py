"""The warden's parts: what it is told, and what its start costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxio_local import _launch
from sandboxio_local._warden import session
from sandboxio_local._warden.options import Options, parse

SLOW = ("json", "socket", "signal", "subprocess", "pathlib", "enum", "re", "typing", "contextlib")


def test_options_survive() -> None:
    options = Options()
    options.control, options.lock, options.owner, options.arguments, options.uid = 3, 4, 5, 6, -1
    options.directory, options.bwrap = "/run/sandboxio/sbx-1", "/usr/bin/bwrap=odd"
    options.lifetime = 12.5
    options.command = ["/usr/bin/python3", "-I", "in=3", "", "a\nb"]
    options.keep, options.hold, options.cores = [7, 8], [9], [0, 1]
    options.limits = [(6, 512), (4, 0)]
    options.cgroups = ["mkdir=/a", "write=/a/b=+x +y"]
    options.join, options.stage, options.helper = (
        ["/a/cgroup.procs"],
        ["/root/x"],
        ["pasta", "{net}"],
    )
    assert vars(parse(options.words())) == vars(options)


def as_a_warden(code: str) -> str:
    """Return what code prints in an interpreter such as a warden's; it is told where the package is."""
    package = str(Path(_launch.__file__).parent.parent)
    command = [sys.executable, "-I", "-S", "-c", code, package]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_start_imports_little() -> None:
    code = (
        "import sys; sys.path.append(sys.argv[1]); import sandboxio_local._warden.main;"
        "print(*sys.modules)"
    )
    loaded = set(as_a_warden(code).split())
    assert "sandboxio_local._warden.spawn" in loaded
    assert loaded & set(SLOW) == set()
    assert not [name for name in loaded if name.startswith(("anyio", "sandboxio."))]


WAITING = """
import os, socket, sys
sys.path.append(sys.argv[1])
from sandboxio_local._warden.waiting import Waiting, signals

def waiting(lifetime=60.0, owner=os.getpid()):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return ours, Waiting(theirs.detach(), owner, lifetime)

creator, one = waiting()
print("at first", one.is_unawaited())
creator.shutdown(socket.SHUT_WR)
print("shut down", one.is_unawaited())
creator.close()
print("closed", one.is_unawaited())
os.kill(os.getpid(), signals.SIGTERM)
print("asked", one.is_unawaited())
creator, one = waiting(lifetime=0.0)
print("over", one.is_unawaited())
owner = os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {})
creator, one = waiting(owner=owner)
os.waitid(os.P_PID, owner, os.WEXITED | os.WNOWAIT)
print("owner gone", one.is_unawaited())
"""


def test_warden_hurries_only_while_somebody_waits_for_the_end() -> None:
    assert as_a_warden(WAITING).splitlines() == [
        "at first False",
        "shut down False",
        "closed True",
        "asked False",
        "over True",
        "owner gone True",
    ]


def refuse(pid: int) -> int:
    raise PermissionError(pid)


@pytest.mark.parametrize("refused", [False, True])
def test_session_of_a_warden_is_found_and_killed(
    refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a security module lets nobody ask for the session of a stranger."""
    if refused:
        monkeypatch.setattr(os, "getsid", refuse)
    leader = subprocess.Popen(
        ["sh", "-c", "sleep 300 & echo $!; wait"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with leader:
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        assert session.members(leader.pid) == [child]
        assert session.kill_all(leader.pid, b"no such word")
        assert not session.kill_all(leader.pid)
    assert session.kill_all(leader.pid)


def test_plugin_loads_neither_engine_nor_event_loop() -> None:
    code = (
        "import sys; from sandboxio_local._plugin import sandboxio_backend;"
        "plugin = sandboxio_backend(); print(plugin.name, plugin.config().backend);"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, loaded = done.stdout.splitlines()
    assert first == "local local"
    assert not {"anyio", "sandboxio._engine", "sandboxio_local._driver"} & set(loaded.split())


def test_public_names_are_there() -> None:
    import sandboxio_local

    assert sandboxio_local.__all__ == ["LocalBackend", "LocalConfig"]
    assert set(sandboxio_local.__all__) <= set(dir(sandboxio_local))
    assert sandboxio_local.LocalBackend.__name__ == "LocalBackend"
    assert sandboxio_local.LocalConfig(template="/srv/tree").backend == "local"
