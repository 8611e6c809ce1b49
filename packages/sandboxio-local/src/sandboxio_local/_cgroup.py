"""Control groups: where this process may make some, and what a sandbox's would look like."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["CPU_PERIOD", "Groups", "Hierarchy", "find", "oom_kills"]

PARENT: Final = "sandboxio"
"""Name of the group that holds the groups of all sandboxes."""

CPU_PERIOD: Final = 100_000
"""Microseconds over which the quota of processor time is counted; the kernel's own default."""

_CONTROLLERS: Final = ("memory", "pids", "cpu")


@dataclass(frozen=True)
class Groups:
    """What a warden does to put one sandbox under its caps.

    Attributes:
        steps: For the warden, in order.
        join: The ``cgroup.procs`` files of the sandbox's groups.
        expected: What each cap's file must hold afterwards.
        events: The file that counts kills for want of memory.
    """

    steps: tuple[str, ...]
    join: tuple[str, ...]
    expected: tuple[tuple[str, str], ...]
    events: str


@dataclass(frozen=True)
class Hierarchy:
    """Groups below which this process may make others.

    Attributes:
        version: 1 or 2.
        places: Directory to make groups in, for each controller that can be used.
        swap: Whether swap can be capped.
    """

    version: int
    places: dict[str, str]
    swap: bool

    def plan(self, name: str, *, memory: int, processes: int, cpu: float | None) -> Groups:
        """Plan the groups of one sandbox.

        Args:
            name: The sandbox's id.
            memory: Bytes, swap included.
            processes: Processes and threads.
            cpu: Cores; ``None`` where the controller is missing or the cap is not for it.
        """
        quota = None if cpu is None else round(cpu * CPU_PERIOD)
        if self.version == 1:
            return self._plan_v1(name, memory, processes, quota)
        place = self.places["memory"]
        group = f"{place}/{PARENT}/{name}"
        caps = [(f"{group}/memory.max", str(memory)), (f"{group}/pids.max", str(processes))]
        if self.swap:
            caps.append((f"{group}/memory.swap.max", "0"))
        if quota is not None:
            caps.append((f"{group}/cpu.max", f"{quota} {CPU_PERIOD}"))
        wanted = " ".join(f"+{controller}" for controller in self.places)
        steps = (
            f"mkdir={place}/{PARENT}",
            f"write={place}/{PARENT}/cgroup.subtree_control={wanted}",
            f"mkdir={group}",
            *(f"write={path}={value}" for path, value in caps),
        )
        return Groups(steps, (f"{group}/cgroup.procs",), tuple(caps), f"{group}/memory.events")

    def _plan_v1(self, name: str, memory: int, processes: int, quota: int | None) -> Groups:
        group = {kind: f"{place}/{PARENT}/{name}" for kind, place in self.places.items()}
        caps = [(f"{group['memory']}/memory.limit_in_bytes", str(memory))]
        if self.swap:
            caps.append((f"{group['memory']}/memory.memsw.limit_in_bytes", str(memory)))
        caps.append((f"{group['pids']}/pids.max", str(processes)))
        if quota is not None:
            caps.append((f"{group['cpu']}/cpu.cfs_period_us", str(CPU_PERIOD)))
            caps.append((f"{group['cpu']}/cpu.cfs_quota_us", str(quota)))
        kinds = ("memory", "pids") if quota is None else _CONTROLLERS
        # Controllers that are mounted together have one directory.
        used = dict.fromkeys(group[kind] for kind in kinds)
        made = [step for path in used for step in (f"mkdir={Path(path).parent}", f"mkdir={path}")]
        return Groups(
            (*made, *(f"write={path}={value}" for path, value in caps)),
            tuple(f"{path}/cgroup.procs" for path in used),
            tuple(caps),
            f"{group['memory']}/memory.oom_control",
        )


def find(proc: Path = Path("/proc/self"), root: Path = Path("/")) -> Hierarchy | None:
    """Return where groups can be made, or ``None`` if memory and processes cannot be capped.

    Args:
        proc: Directory with ``mountinfo`` and ``cgroup`` of this process.
        root: Where the mount points that ``mountinfo`` names are found.
    """
    try:
        mounts = _mounts((proc / "mountinfo").read_text())
        memberships = _memberships((proc / "cgroup").read_text())
    except OSError:
        return None
    return _find_v2(mounts, memberships, root) or _find_v1(mounts, memberships, root)


def oom_kills(events: str) -> int | None:
    """Return how often the kernel killed a process of a group for want of memory, if it tells."""
    try:
        lines = Path(events).read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return None


_Mounts = dict[str, tuple[str, str]]  # controller, or "" for version 2: mount point and its root


def _mounts(text: str) -> _Mounts:
    found: _Mounts = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if kind[0] == "cgroup2":
            found.setdefault("", (fields[4], fields[3]))
        elif kind[0] == "cgroup":
            for option in kind[2].split(","):
                found.setdefault(option, (fields[4], fields[3]))
    return found


def _memberships(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _directory(mount: tuple[str, str], membership: str, root: Path) -> Path | None:
    point, origin = mount
    inside = membership
    if origin != "/":
        if membership != origin and not membership.startswith(f"{origin}/"):
            return None  # this process is outside of what is mounted
        inside = membership[len(origin) :]
    path = root / point.lstrip("/") / inside.strip("/")
    return path if path.is_dir() else None


def _find_v1(mounts: _Mounts, memberships: dict[str, str], root: Path) -> Hierarchy | None:
    places: dict[str, str] = {}
    for controller in _CONTROLLERS:
        if controller in mounts and controller in memberships:
            path = _directory(mounts[controller], memberships[controller], root)
            if path is not None and os.access(path, os.W_OK | os.X_OK):
                places[controller] = str(path)
    if "memory" not in places or "pids" not in places:
        return None
    swap = Path(places["memory"], "memory.memsw.limit_in_bytes").exists()
    return Hierarchy(1, places, swap)


def _find_v2(mounts: _Mounts, memberships: dict[str, str], root: Path) -> Hierarchy | None:
    """Look upwards for a group that hands its controllers down and that we may make groups in.

    A group with processes of its own cannot do that, so it is hardly ever our own.
    """
    if "" not in mounts or "" not in memberships:
        return None
    own = _directory(mounts[""], memberships[""], root)
    top = root / mounts[""][0].lstrip("/")
    best: Hierarchy | None = None
    while own is not None:
        control = own / "cgroup.subtree_control"
        handed = control.read_text().split() if control.exists() else []
        usable = [controller for controller in _CONTROLLERS if controller in handed]
        # To move a process takes the right to write to the group above both places.
        if {"memory", "pids"} <= set(usable) and all(
            os.access(path, os.W_OK) for path in (own, own / "cgroup.procs")
        ):
            here = Hierarchy(2, dict.fromkeys(usable, str(own)), _has_swap_file(own))
            if best is None or len(here.places) > len(best.places):
                best = here
        if own == top:
            break
        own = own.parent
    return best


def _has_swap_file(group: Path) -> bool:
    # The top group has no caps of its own; what its children have shows whether swap is counted.
    return any(group.glob("*/memory.swap.max")) or (group / "memory.swap.max").exists()
