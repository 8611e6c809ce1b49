"""The policy of a container: how it is asked for, and what is read back of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sandboxio.errors import CreationError
from sandboxio.models import AppliedCap, AppliedPolicy, IsolationTier, NetworkPolicy, Resources

from ._cgroup import UNIFIED, CgroupFiles

__all__ = ["host_config", "read_policy"]

MIB = 1024 * 1024
NANO = 1_000_000_000

DENY_MODE = "none"
ALLOW_MODE = "bridge"

Json = dict[str, Any]


def host_config(
    resources: Resources, network: NetworkPolicy, runtime: str | None, *, init: bool
) -> Json:
    """Return the part of a container's configuration that confines it."""
    assert resources.memory_mb is not None
    assert resources.cpu is not None
    memory = resources.memory_mb * MIB
    config: Json = {
        "AutoRemove": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "Privileged": False,
        "NetworkMode": ALLOW_MODE if network.egress == "allow" else DENY_MODE,
        "IpcMode": "private",
        "Memory": memory,
        # Memory and swap together: equal values leave no swap.
        "MemorySwap": memory,
        "NanoCpus": round(resources.cpu * NANO),
        "PidsLimit": resources.processes,
        "Init": init,
        # What the guest says to the host is not for the engine's log files.
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no"},
    }
    if runtime is not None:
        config["Runtime"] = runtime
    return config


async def read_policy(
    attributes: Json,
    files: CgroupFiles,
    *,
    cgroup_version: str,
    isolation: IsolationTier,
    lifetime: float,
    user: str,
) -> AppliedPolicy:
    """Return what is in force on a running container, by the engine's and the kernel's word.

    Raises:
        CreationError: A cap or the network is not what it has to be.
    """
    config: Json = attributes["HostConfig"]
    memory = int(config.get("Memory") or 0)
    cpu = int(config.get("NanoCpus") or 0) / NANO
    processes = int(config.get("PidsLimit") or 0)
    if not (memory and cpu and processes > 0 and config.get("MemorySwap") == memory):
        raise CreationError("The Docker Engine does not report the caps of the container.")
    if not config.get("CapDrop") or config.get("Privileged"):
        raise CreationError("The Docker Engine does not report dropped capabilities.")
    two = cgroup_version == "2"
    source = f"cgroup v{cgroup_version}"
    notes: list[str] = []
    caps = {
        "memory": AppliedCap(
            memory / MIB,
            f"{source} memory with swap",
            await _memory_holds(files, two, memory),
        ),
        "cpu": AppliedCap(cpu, f"{source} CPU quota", await _cpu_holds(files, two, cpu)),
        "processes": AppliedCap(
            processes,
            f"{source} pids.max",
            await _says(files, UNIFIED if two else "pids", "pids.max", str(processes)),
        ),
    }
    unverified = [name for name, cap in caps.items() if not cap.verified]
    if unverified:
        notes.append(
            f"Read back from the engine alone, its cgroup could not be read: {', '.join(unverified)}."
        )
    elif files.where == "container":
        notes.append("The caps were read back inside the container, before any code ran in it.")
    network, verified = _network(attributes)
    notes.append(f"Commands run as {user or 'root'}, with no capability and no new privileges.")
    return AppliedPolicy(
        isolation=isolation,
        network=network,
        network_mechanism=f"own network namespace, Docker network {config['NetworkMode']!r}",
        network_verified=verified,
        lifetime_s=lifetime,
        cpu=caps["cpu"],
        memory_mb=caps["memory"],
        processes=caps["processes"],
        notes=tuple(notes),
    )


async def _memory_holds(files: CgroupFiles, two: bool, memory: int) -> bool:
    if two:
        swap = await _says(files, UNIFIED, "memory.swap.max", "0")
        return await _says(files, UNIFIED, "memory.max", str(memory)) and swap
    both = await _says(files, "memory", "memory.memsw.limit_in_bytes", str(memory))
    return await _says(files, "memory", "memory.limit_in_bytes", str(memory)) and both


async def _cpu_holds(files: CgroupFiles, two: bool, cpu: float) -> bool:
    if two:
        content = await files.read(UNIFIED, "cpu.max")
        quota, _, period = (content or "").strip().partition(" ")
    else:
        quota = (await files.read("cpu", "cpu.cfs_quota_us") or "").strip()
        period = (await files.read("cpu", "cpu.cfs_period_us") or "").strip()
    if not quota or not period:
        return False
    if not quota.isdigit() or abs(int(quota) / int(period) - cpu) > 0.01:
        raise CreationError(f"The CPU cap is {cpu:g}, and its cgroup says {quota} of {period}.")
    return True


async def _says(files: CgroupFiles, controller: str, name: str, wanted: str) -> bool:
    """Say whether a file can be read; what it says must be what was asked for."""
    content = await files.read(controller, name)
    if content is None:
        return False
    if content.strip() != wanted:
        raise CreationError(f"{name} must be {wanted}, and the cgroup says {content.strip()!r}.")
    return True


def _network(attributes: Json) -> tuple[NetworkPolicy, bool]:
    mode = attributes["HostConfig"]["NetworkMode"]
    networks = set(attributes.get("NetworkSettings", {}).get("Networks") or {})
    if mode == ALLOW_MODE:
        return NetworkPolicy(egress="allow"), networks == {ALLOW_MODE}
    if mode != DENY_MODE or networks - {DENY_MODE}:
        raise CreationError(f"The container must have no network, and has {mode} {networks}.")
    interfaces = _interfaces(int(attributes["State"]["Pid"]), attributes["Id"])
    if interfaces is not None and interfaces - {"lo"}:
        raise CreationError(f"The container must have no network, and has {interfaces}.")
    # Podman lists no network where there is none; the kernel says the same for both.
    return NetworkPolicy(), interfaces is not None or networks == {DENY_MODE}


def _interfaces(pid: int, container: str) -> set[str] | None:
    """List the network interfaces of a process of this machine, by the kernel's word."""
    try:
        if container not in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8"):
            return None
        lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    # sit0 and its like are templates that the kernel puts into every namespace; they lead nowhere.
    templates = {"sit0", "tunl0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0"}
    return {line.partition(":")[0].strip() for line in lines[2:]} - templates - {"ip6gre0"}
