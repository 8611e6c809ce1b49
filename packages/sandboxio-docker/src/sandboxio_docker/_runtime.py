"""Which isolation an OCI runtime gives."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import basename
from typing import TYPE_CHECKING, Any

from sandboxio.errors import ConfigurationError, CreationError
from sandboxio.models import IsolationTier

from ._labels import RUNTIME

if TYPE_CHECKING:
    from ._engine_info import EngineInfo

__all__ = ["check_runtime", "runtime_of", "tier_of"]

DEFAULT = "runc"


def tier_of(program: str | None) -> IsolationTier:
    """Return the tier of a runtime by the name of its program; ``None`` is the engine's default."""
    name = basename(program or DEFAULT)
    # Shims are called io.containerd.<runtime>.v<number>.
    name = name.removeprefix("io.containerd.").removeprefix("containerd-shim-")
    name = name.partition(".")[0].removesuffix("-v2")
    if name == "runc":
        return IsolationTier.CONTAINER
    if name == "runsc":
        return IsolationTier.GVISOR
    if name == "kata" or name.startswith("kata-"):
        return IsolationTier.MICROVM
    return IsolationTier.UNKNOWN


def is_known(name: str, runtimes: Mapping[str, str]) -> bool:
    """Say whether an engine has a runtime of that name; those of containerd it does not list."""
    return name in runtimes or name.startswith("io.containerd.")


def check_runtime(asked: str | None, default: str, runtimes: Mapping[str, str]) -> IsolationTier:
    """Return the tier that a sandbox really gets, by the program behind the runtime's name.

    Raises:
        ConfigurationError: The engine does not have that runtime.
        CreationError: It is less than what the name promises.
    """
    name = asked or default
    # An engine has its own default also when it is named by its path, as Podman's may be.
    default_path = asked is None and default.startswith("/")
    if not (is_known(name, runtimes) or default_path):
        raise ConfigurationError(
            f"The Docker Engine has no runtime {name!r}. It has: {', '.join(runtimes) or 'none'}.",
            hint="Add it to the engine's daemon.json, or choose another DockerConfig(runtime=...).",
        )
    promised = tier_of(asked)
    program = runtimes.get(name, name)
    # A bare name or the name of a shim says no more than the runtime's own name does.
    given = tier_of(program)
    if given.rank < promised.rank:
        raise CreationError(
            f"The runtime {name!r} of this Docker Engine is {program!r}, whose isolation is "
            f"{given.value!r}; {promised.value!r} was promised. Nothing was created.",
            hint=f"Name a runtime that you mean: DockerConfig(runtime={name!r})."
            if asked is None
            else "Correct the runtimes in the engine's daemon.json.",
            retryable=False,
        )
    return given


def runtime_of(attributes: Mapping[str, Any], info: EngineInfo) -> str:
    """Return the name of a container's runtime.

    Podman calls every one "oci" (4.3, 2026-11); then what our label says was asked for.
    """
    said = str(attributes["HostConfig"].get("Runtime") or "")
    if is_known(said, info.runtimes):
        return said
    labels: Mapping[str, str] = attributes["Config"].get("Labels") or {}
    return labels.get(RUNTIME) or info.default_runtime
