"""What the kernel says of a container's caps, read from outside where that is possible."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["CapCounts", "CgroupFiles", "HostCgroup", "InnerCgroup", "count_caps"]

TOP = Path("/sys/fs/cgroup")

UNIFIED = ""
"""The controller's name in a hierarchy of version 2, which has one folder for all of them."""


class CgroupFiles(Protocol):
    """The cgroup files of one container."""

    @property
    def where(self) -> str:
        """Where they are read, for the caller's eyes."""
        ...

    async def read(self, controller: str, name: str) -> str | None:
        """Return a file's content, or ``None`` if it cannot be read.

        `controller` is a name of version 1, or `UNIFIED`.
        """
        ...


class HostCgroup:
    """Read on this machine, where the container's processes are too: out of the sandbox's reach."""

    where = "host"

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders

    @classmethod
    def of(cls, pid: int, container: str) -> HostCgroup | None:
        """Find the cgroups of a container by its first process; ``None`` if that is not here.

        The engine may run on another machine, or in a virtual one, where the pid means another
        process: its cgroups have to name the container.
        """
        try:
            lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:
            return None
        folders: dict[str, Path] = {}
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if container not in path:
                continue
            for controller in controllers.split(","):
                folder = TOP / controller / path.lstrip("/")
                if folder.is_dir():
                    folders[controller] = folder
        return cls(folders) if folders else None

    async def read(self, controller: str, name: str) -> str | None:
        """Return a file's content."""
        folder = self._folders.get(controller)
        if folder is None:
            return None
        try:
            # The kernel makes it up in memory, in microseconds: a thread would take longer.
            return (folder / name).read_text(encoding="ascii")
        except (OSError, ValueError):
            return None


class InnerCgroup:
    """Read in the container: a claim of the sandbox, and the best there is for a remote engine."""

    where = "container"

    def __init__(self, read_file: Callable[[str], Awaitable[bytes | None]]) -> None:
        self._read_file = read_file

    async def read(self, controller: str, name: str) -> str | None:
        """Return a file's content."""
        content = await self._read_file(str(TOP / controller / name))
        return None if content is None else content.decode("ascii", "replace")


@dataclass(frozen=True)
class CapCounts:
    """How often the kernel has enforced a cap so far."""

    out_of_memory: int = 0
    process_refused: int = 0


async def count_caps(files: CgroupFiles, version: str) -> CapCounts:
    """Read how often the kernel killed for memory and refused a process."""
    if version == "2":
        memory = await files.read(UNIFIED, "memory.events")
        processes = await files.read(UNIFIED, "pids.events")
    else:
        memory = await files.read("memory", "memory.oom_control")
        processes = await files.read("pids", "pids.events")
    return CapCounts(_field(memory, "oom_kill"), _field(processes, "max"))


def _field(content: str | None, name: str) -> int:
    found = re.search(rf"^{name} (\d+)$", content or "", re.MULTILINE)
    return int(found[1]) if found else 0
