"""What an engine says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["EngineInfo", "engine_info"]

Json = dict[str, Any]


@dataclass(frozen=True)
class EngineInfo:
    """What is asked of an engine once."""

    version: str
    api_version: str
    platform: str
    cgroup_version: str
    runtimes: Mapping[str, str]
    default_runtime: str
    missing_limits: tuple[str, ...] = ()


def engine_info(info: Json, api_version: str) -> EngineInfo:
    """Read what an engine says of itself."""
    needed = {"MemoryLimit": "memory", "PidsLimit": "processes", "CpuCfsQuota": "CPU"}
    missing = [what for key, what in needed.items() if info.get(key) is False]
    if info.get("SwapLimit") is False and info.get("CgroupVersion", "1") == "1":
        missing.append("swap")
    runtimes: Json = info.get("Runtimes") or {}
    return EngineInfo(
        version=str(info.get("ServerVersion", "?")),
        api_version=api_version,
        platform=f"{info.get('OSType', '?')}/{info.get('Architecture', '?')}",
        cgroup_version=str(info.get("CgroupVersion", "1")),
        runtimes={name: str(entry.get("path") or name) for name, entry in sorted(runtimes.items())},
        default_runtime=str(info.get("DefaultRuntime") or "runc"),
        missing_limits=tuple(missing),
    )
