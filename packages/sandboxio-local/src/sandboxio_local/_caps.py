"""From the caps that are asked for to what will enforce them."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sandboxio.errors import CapabilityNotSupported, ConfigurationError
from sandboxio.models import Capability, Resources
from sandboxio_local._cgroup import Groups, Hierarchy
from sandboxio_local._layout import Disk

__all__ = ["MONITOR", "Caps", "defaults", "plan"]

LEAST_MEMORY_MB: Final = 64
"""What the guest itself needs, and a little to work with."""

KEPT_FOR_PROCESSES_MB: Final = 32
"""Memory that files may not use up, where they and processes come out of one cap."""

LEAST_CPU: Final = 0.01
"""Cores. The kernel hands out processor time in pieces of no less than a millisecond."""

MONITOR: Final = 1
"""Processes in a sandbox's control group that are not in the sandbox: bubblewrap's monitor."""

OPEN_FILES: Final = 65536
"""Descriptors of one process; many hosts allow more, and the kernel pays for them."""

NAMESPACED_LIMITS: Final = (5, 14)
"""The kernel since which processes are counted for each user namespace, and not for a whole user."""

RESERVED: Final = 8 << 30
"""Bytes of address space that a process may have beyond its memory, where that is a limit of its own."""

_MIB: Final = 1 << 20


@dataclass(frozen=True)
class Caps:
    """How the caps of one sandbox are enforced.

    Attributes:
        memory_mb: MiB.
        processes: How many; ``None`` if that cannot be enforced.
        cpu: Cores.
        disk_mb: MiB.
        groups: Its control groups; ``None`` where this process can make none.
        cores: Processors to run on, where their time cannot be metered.
        limits: Resource limits as pairs of number and value.
        refused: System calls that would lead round these caps.
        notes: What a reader of the policy must know.
    """

    memory_mb: int
    processes: int | None
    cpu: float
    disk_mb: int
    groups: Groups | None
    cores: tuple[int, ...]
    limits: tuple[tuple[int, int], ...]
    refused: frozenset[str]
    notes: tuple[str, ...]

    @property
    def disk(self) -> Disk:
        """Sizes of the file systems."""
        return Disk.of(self.disk_mb)


def defaults(hierarchy: Hierarchy | None) -> Resources:
    """Return the caps of a sandbox whose creator names none; ``None`` cannot be enforced here."""
    known = Resources(cpu=1, memory_mb=512, disk_mb=384, processes=512)
    if hierarchy is None and _kernel() < NAMESPACED_LIMITS:
        return replace(known, processes=None)
    return known


def plan(name: str, wanted: Resources, hierarchy: Hierarchy | None) -> Caps:
    """Decide how caps are enforced.

    Args:
        name: The sandbox's id.
        wanted: The caps; what is ``None`` is as in `defaults`.
        hierarchy: Where control groups can be made.

    Raises:
        ConfigurationError: A cap is too small to work with.
        CapabilityNotSupported: A cap cannot be enforced here.
    """
    if wanted.gpu is not None:
        raise CapabilityNotSupported(
            "The local backend has no GPUs to hand out.", capability=Capability.GPU
        )
    known = defaults(hierarchy)
    memory = wanted.memory_mb or known.memory_mb or 0
    _at_least("memory_mb", memory, LEAST_MEMORY_MB)
    disk = wanted.disk_mb or known.disk_mb or 0
    cpu = wanted.cpu or known.cpu or 0.0
    _at_least("cpu", cpu, LEAST_CPU)
    processes = wanted.processes or known.processes
    if wanted.processes is not None and known.processes is None:
        raise CapabilityNotSupported(
            "This kernel cannot count the processes of one sandbox without a control group.",
            hint=f"Use Linux {'.'.join(map(str, NAMESPACED_LIMITS))} or newer.",
        )
    metered = hierarchy is not None and "cpu" in hierarchy.places
    groups = None
    if hierarchy is not None:
        groups = hierarchy.plan(
            name,
            memory=memory * _MIB,
            processes=(processes or 0) + MONITOR,
            cpu=cpu if metered else None,
        )
    notes = ["Files are kept in memory, and go with the sandbox."]
    limits = _limits_of_everyone()
    refused: set[str] = set()
    if hierarchy is None:
        # Not the address space: many runtimes reserve gigabytes of it that they never use.
        limits.append((resource.RLIMIT_DATA, memory * _MIB))
        limits.append((resource.RLIMIT_AS, memory * _MIB + RESERVED))
        if processes is not None:
            limits.append((resource.RLIMIT_NPROC, processes))
        refused |= {"memfd_create", "memfd_secret", "shmget"}  # memory that no address space shows
        notes.append("No control group can be made here: memory is capped for each process alone.")
    else:
        if not hierarchy.swap and _swap_is_on():
            notes.append("Swap is not capped: this kernel does not count it.")
        if disk > memory - KEPT_FOR_PROCESSES_MB:
            disk = memory - KEPT_FOR_PROCESSES_MB
            notes.append("The disk is smaller than asked for, because files count as memory.")
    cores: tuple[int, ...] = ()
    if not metered:
        cores = _some_cores(name, cpu)
        refused.add("sched_setaffinity")
    return Caps(
        memory_mb=memory,
        processes=processes,
        cpu=cpu,
        disk_mb=disk,
        groups=groups,
        cores=cores,
        limits=tuple(limits),
        refused=frozenset(refused),
        notes=tuple(notes),
    )


def _at_least(name: str, value: float, least: float) -> None:
    if value < least:
        raise ConfigurationError(
            f"{name} is {value:g}, and a sandbox needs at least {least:g}.",
            hint=f"Ask for Resources({name}={least:g}) or more.",
        )


def _limits_of_everyone() -> list[tuple[int, int]]:
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_NICE, 0),
        (resource.RLIMIT_NOFILE, min(files, OPEN_FILES) if files > 0 else OPEN_FILES),
    ]


def _some_cores(name: str, cpu: float) -> tuple[int, ...]:
    if cpu != int(cpu):
        raise CapabilityNotSupported(
            f"cpu={cpu:g} needs a control group to meter processor time, and none can be made here.",
            hint="Ask for whole cores, or delegate the cpu controller to this user.",
        )
    cores = sorted(os.sched_getaffinity(0))
    first = hash(name) % len(cores)  # so that not all sandboxes crowd on the same ones
    return tuple(sorted((cores[first:] + cores[:first])[: int(cpu)]))


def _swap_is_on() -> bool:
    try:
        return len(Path("/proc/swaps").read_text().splitlines()) > 1
    except OSError:
        return True


def _kernel() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(digit for digit in minor if digit.isdigit()) or 0)
