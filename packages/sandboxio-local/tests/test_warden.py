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


def test_start_imports_little() -> None:
    code = (
        "import sys; sys.path.append(sys.argv[1]); import sandboxio_local._warden.main;"
        "print(*sys.modules)"
    )
    package = str(Path(_launch.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, package],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "sandboxio_local._warden.spawn" in loaded
    assert loaded & set(SLOW) == set()
    assert not [name for name in loaded if name.startswith(("anyio", "sandboxio."))]


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
