"""The local backend under the contract."""

from __future__ import annotations

import json
import os
from pathlib import Path

from leftovers import children
from sandboxio_local import LocalBackend
from sandboxio_testing.suite import BackendContract, NamespaceWitness
from sandboxio_testing.suite.properties import PropertyContract


class LocalWitness(NamespaceWitness):
    """Finds the wardens that this process started, and below each the first process inside."""

    def initial_processes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for warden in children(os.getpid()):
            directory = argument(warden, "directory")
            inside = [pid for bwrap in children(warden) for pid in children(bwrap)]
            if directory and inside:
                found[Path(directory).name] = inside[0]
        return found

    def labels(self, sandbox_id: str) -> dict[str, str]:
        labels: dict[str, str] = json.loads(self._state(sandbox_id)["made.json"])["labels"]
        return labels

    def description(self, sandbox_id: str) -> str:
        lines = [command_line(pid) for pid in self._pids(sandbox_id)]
        return "\n".join([*self._state(sandbox_id).values(), *lines])

    def _state(self, sandbox_id: str) -> dict[str, str]:
        for warden in children(os.getpid()):
            directory = Path(argument(warden, "directory"))
            if directory.name == sandbox_id:
                return {path.name: path.read_text() for path in directory.glob("*.json")}
        return {}


def command_line(pid: int) -> str:
    """Return the command line of a process, its arguments in lines."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", "\n")
    except OSError:
        return ""


def argument(pid: int, name: str) -> str:
    """Return the value of an argument ``name=value`` of a process."""
    for line in command_line(pid).splitlines():
        if line.startswith(f"{name}="):
            return line.partition("=")[2]
    return ""


class TestLocal(BackendContract):
    backend = LocalBackend
    witness = LocalWitness
    # A stall of a busy machine fits in.
    short_lifetime = 5.0


class TestLocalWithAnyInput(PropertyContract):
    backend = LocalBackend
    witness = LocalWitness
