"""What is in force on a sandbox, read from what enforces it; never from what was asked for."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

from sandboxio.errors import CreationError
from sandboxio.models import AppliedCap, AppliedPolicy, IsolationTier, NetworkPolicy
from sandboxio_local._caps import MONITOR, Caps
from sandboxio_local._egress import DENIED, Egress
from sandboxio_local._layout import SHM, TMP, WORKDIR
from sandboxio_local._readable import Readable

__all__ = ["policy"]

_NAMESPACES: Final = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")


def policy(
    caps: Caps,
    *,
    init: int,
    network: NetworkPolicy,
    egress: Egress,
    lifetime: float,
    readable: Readable = (),
) -> AppliedPolicy:
    """Verify a running sandbox and return its policy.

    Args:
        caps: What was asked for.
        init: The sandbox's first process, which has mounted everything by now.
        network: The policy that was asked for.
        egress: How that is enforced.
        lifetime: Seconds that it lives.
        readable: Directories of the host that it may read.

    Raises:
        CreationError: Something is not in force.
    """
    for name in _NAMESPACES:
        theirs, ours = (Path(f"/proc/{who}/ns/{name}").readlink() for who in (init, "self"))
        _require(theirs != ours, f"the {name} namespace")
    for number, value in caps.limits:
        _require(resource.prlimit(init, number) == (value, value), f"resource limit {number}")
    _check_status(init)
    _check_network(init, denied=egress is DENIED)
    applied = _group_caps(caps, init) if caps.groups else _limit_caps(caps)
    if caps.cores:
        _require(os.sched_getaffinity(init) == set(caps.cores), "the processor affinity")
        applied["cpu"] = AppliedCap(len(caps.cores), "processor affinity", verified=True)
    applied["disk_mb"] = AppliedCap(_disk_mb(caps, init), "size of its tmpfs mounts", verified=True)
    return AppliedPolicy(
        isolation=IsolationTier.CONTAINER,
        network=network,
        network_mechanism=egress.mechanism,
        network_verified=True,
        lifetime_s=lifetime,
        notes=(*caps.notes, *_read_only(readable, init)),
        **applied,
    )


def _read_only(readable: Readable, init: int) -> list[str]:
    for real, inside in readable:
        flags = os.statvfs(f"/proc/{init}/root{inside}").f_flag
        _require(bool(flags & os.ST_RDONLY), f"the read-only mount of {real}")
    return [f"{real} of the host can be read at {inside}." for real, inside in readable]


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise CreationError(f"The sandbox was ended at once: {what} is not in force.")


def _check_status(init: int) -> None:
    lines = Path(f"/proc/{init}/status").read_text().splitlines()
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    _require(status["NoNewPrivs"] == "1", "no_new_privs")
    _require(status["Seccomp"] == "2", "the system call filter")
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        _require(int(status[name], 16) == 0, f"the drop of capabilities ({name})")
    _require("0" not in status["Uid"].split(), "its own user")


def _check_network(init: int, *, denied: bool) -> None:
    # Of its own namespace: a process's view of the network, whoever looks at it.
    lines = Path(f"/proc/{init}/net/dev").read_text().splitlines()[2:]
    interfaces = {line.partition(":")[0].strip() for line in lines}
    # Tunnels that the kernel puts into every new namespace where its modules are loaded lead nowhere.
    connected = interfaces - {"lo", "tunl0", "sit0", "gre0", "gretap0", "erspan0", "ip6tnl0"}
    connected -= {"ip_vti0", "ip6_vti0", "ip6gre0"}
    _require(bool(connected) is not denied, "the network policy")


def _group_caps(caps: Caps, init: int) -> dict[str, AppliedCap]:
    assert caps.groups is not None
    for procs in caps.groups.join:
        _require(str(init) in Path(procs).read_text().split(), procs)
    values: dict[str, str] = {}
    for path, value in caps.groups.expected:
        found = Path(path).read_text().strip()
        _require(found == value, path)
        values[Path(path).name] = found
    version = "v2" if "memory.max" in values else "v1"
    memory = "memory.max" if version == "v2" else "memory.limit_in_bytes"
    applied = {
        "memory_mb": AppliedCap(
            int(values[memory]) / (1 << 20), f"cgroup {version} {memory}", verified=True
        ),
        "processes": AppliedCap(
            int(values["pids.max"]) - MONITOR, f"cgroup {version} pids.max", verified=True
        ),
    }
    cpu = "cpu.max" if version == "v2" else "cpu.cfs_quota_us"
    if cpu in values:
        period = values[cpu].split()[-1] if version == "v2" else values["cpu.cfs_period_us"]
        cores = int(values[cpu].split()[0]) / int(period)
        applied["cpu"] = AppliedCap(cores, f"cgroup {version} {cpu}", verified=True)
    return applied


def _limit_caps(caps: Caps) -> dict[str, AppliedCap]:
    # Compared with the process's own limits before.
    applied = {
        "memory_mb": AppliedCap(caps.memory_mb, "RLIMIT_DATA of each process", verified=True)
    }
    if caps.processes is not None:
        applied["processes"] = AppliedCap(
            caps.processes, "RLIMIT_NPROC in its user namespace", verified=True
        )
    return applied


def _disk_mb(caps: Caps, init: int) -> float:
    total = 0
    sizes = {WORKDIR: caps.disk.work, TMP: caps.disk.tmp, SHM: caps.disk.shm}
    for path, size in sizes.items():
        # These are mount points on a read-only file system: nothing inside can replace them.
        info = os.statvfs(f"/proc/{init}/root{path}")
        found = info.f_blocks * info.f_frsize
        _require(found == -(-size // info.f_frsize) * info.f_frsize, f"the size of {path}")
        total += found
    return total / (1 << 20)
