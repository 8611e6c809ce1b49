"""A witness for backends whose sandboxes are namespaces of this very Linux host."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

from ._witness import ProviderFacts, Unanswerable

__all__ = ["NamespaceWitness"]

DESTROY_BOUND = 10.0
"""Seconds until what was killed has to be gone; the kernel needs milliseconds."""

USER_DATA = ("/home", "/root", "/tmp", "/var/tmp")  # noqa: S108 - they are looked for, not used
"""Where a host keeps what belongs to its users."""


class NamespaceWitness:
    """Looks at ``/proc``: a sandbox is a process namespace, known by its first process.

    A subclass says which first processes there are; the rest is the kernel's word.

    Example:
        >>> class MyWitness(NamespaceWitness):
        ...     def initial_processes(self) -> dict[str, int]:
        ...         return {"sbx-1": 4711}
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, str, str]] = {}

    def initial_processes(self) -> Mapping[str, int]:
        """Return the pid, on this host, of the first process of each sandbox that is known now."""
        raise NotImplementedError

    def labels(self, sandbox_id: str) -> Mapping[str, str] | None:
        """Return the labels that are stored with a sandbox."""
        return None

    def description(self, sandbox_id: str) -> str | None:
        """Return what others on this host can read about a sandbox."""
        return None

    def sandboxes(self) -> Collection[str]:
        """Return the ids of all sandboxes that live; with its first process, all of one ends."""
        self._remember()
        return list(self._known)

    def processes(self, sandbox_id: str, marker: str) -> int:
        """Count the living processes of a sandbox with a marker in their command line."""
        wanted = os.fsencode(marker)
        return sum(wanted in _read(pid, "cmdline") for pid in self._pids(sandbox_id))

    def facts(self, sandbox_id: str) -> ProviderFacts:
        """Return what the kernel says of a sandbox."""
        first = min(self._pids(sandbox_id), default=None)
        if first is None:
            raise Unanswerable(f"there is no process of {sandbox_id}")
        return ProviderFacts(
            network=_network(first),
            privileged=_privileged(first),
            host_paths=tuple(_host_paths(first)),
            memory_mb=_memory(first),
            processes=_process_limit(first),
            labels=self.labels(sandbox_id),
            description=self.description(sandbox_id),
        )

    def destroy(self, sandbox_id: str) -> None:
        """Kill every process of a sandbox and wait until all are gone."""
        stop = time.monotonic() + DESTROY_BOUND
        while pids := self._pids(sandbox_id):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            assert time.monotonic() < stop, f"processes of {sandbox_id} do not die: {pids}"
            time.sleep(0.01)

    def _remember(self) -> None:
        """Note new sandboxes, and forget those that ended: the kernel uses their numbers anew."""
        for sandbox_id, pid in self.initial_processes().items():
            if namespace := _namespace(pid, "pid"):
                self._known[sandbox_id] = (pid, _started(pid), namespace)
        for sandbox_id, (pid, started, _) in list(self._known.items()):
            if _started(pid) != started or _state(pid) in ("Z", "X", ""):
                del self._known[sandbox_id]

    def _pids(self, sandbox_id: str) -> list[int]:
        self._remember()
        known = self._known.get(sandbox_id)
        if known is None:
            return []
        return sorted(pid for pid, namespace in _namespaced() if namespace == known[2])


def _namespaced() -> Iterator[tuple[int, str]]:
    """Return every living process that is in another process namespace, with that."""
    own = _namespace(os.getpid(), "pid")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        namespace = _namespace(pid, "pid")
        if namespace and namespace != own and _state(pid) not in ("Z", "X", ""):
            yield pid, namespace


def _namespace(pid: int, kind: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return ""


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _state(pid: int) -> str:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return fields[0].decode() if fields else ""


def _started(pid: int) -> str:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return fields[19].decode() if fields else ""


def _status(pid: int) -> dict[str, str]:
    lines = _read(pid, "status").decode().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _network(pid: int) -> Literal["none", "own", "host"]:
    if _namespace(pid, "net") == _namespace(os.getpid(), "net"):
        return "host"
    devices = _read(pid, "net/dev").decode().splitlines()[2:]
    names = {line.partition(":")[0].strip() for line in devices}
    return "none" if names <= {"lo"} else "own"


def _privileged(pid: int) -> bool:
    """Whether it has any kernel capability, or a namespace of the host's that gives rights."""
    shared = any(_namespace(pid, kind) == _namespace(os.getpid(), kind) for kind in ("pid", "mnt"))
    return shared or int(_status(pid).get("CapEff", "0"), 16) != 0


def _mounts(pid: int) -> Iterator[tuple[str, str, str, set[str]]]:
    """Return device, root, mount point and options of each mount that a process sees."""
    for line in _read(pid, "mountinfo").decode("utf-8", "surrogateescape").splitlines():
        _, _, device, root, point, options, *_ = line.split()
        yield device, root, point, set(options.split(","))


def _host_paths(pid: int) -> Iterator[str]:
    """Return what of the host's file systems can be written, or belongs to the host's users."""
    shared = {device for device, _, _, _ in _mounts(os.getpid())}
    for device, root, point, options in _mounts(pid):
        if device not in shared or point.startswith("/dev/"):
            continue
        if "rw" in options or root.startswith(USER_DATA) or root == "/":
            yield f"{root} at {point}"


def _memory(pid: int) -> float | None:
    limit = _limit(pid, "memory", ("memory.max", "memory.limit_in_bytes"))
    return None if limit is None else limit / (1 << 20)


def _process_limit(pid: int) -> int | None:
    limit = _limit(pid, "pids", ("pids.max",))
    return None if limit is None else int(limit)


def _limit(pid: int, controller: str, names: tuple[str, ...]) -> float | None:
    """Read a limit of a process's own control group; that of this process caps something else."""
    shared = _read(os.getpid(), "cgroup").decode().splitlines()
    for line in _read(pid, "cgroup").decode().splitlines():
        if line in shared:
            continue
        _, controllers, path = line.split(":", 2)
        for mount in (f"/sys/fs/cgroup/{controller}", "/sys/fs/cgroup"):
            if controllers not in ("", controller):
                continue
            for name in names:
                file = Path(f"{mount}{path}/{name}")
                if file.is_file() and (text := file.read_text().strip()).isdigit():
                    return float(text)
    return None
