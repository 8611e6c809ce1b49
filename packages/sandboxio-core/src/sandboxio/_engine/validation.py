"""Arguments become checked values here, before anything is created or started."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from ..errors import CapabilityNotSupported, ConfigurationError
from ..models import Capability, IsolationTier, NetworkPolicy, Resources

__all__ = [
    "MAX_TIMEOUT",
    "check_argv",
    "check_code",
    "check_data",
    "check_env",
    "check_isolation",
    "check_metadata",
    "check_network",
    "check_path",
    "check_resources",
    "check_signal",
    "check_template",
    "check_timeout",
]

MAX_TIMEOUT = 7 * 24 * 3600.0
"""Seconds; beyond any provider's lifetime, a timeout is a mistake rather than a bound."""


def check_timeout(value: object, name: str = "timeout") -> float:
    """Return a number of seconds above 0 and at most `MAX_TIMEOUT`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(
            f"{name} must be a number of seconds, not {type(value).__name__}.",
            hint=f"Pass a number, for example {name}=60. There is no unbounded {name}.",
        )
    if not (math.isfinite(value) and 0 < value <= MAX_TIMEOUT):
        raise ConfigurationError(
            f"{name} must be above 0 and at most {MAX_TIMEOUT:.0f} seconds, not {value}.",
            hint=f"Pass for example {name}=60.",
        )
    return float(value)


def check_text(value: object, name: str) -> str:
    """Return a string that can be handed to a process: no NUL, encodable."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a str, not {type(value).__name__}.")
    if "\0" in value:
        raise ConfigurationError(f"{name} contains a NUL character, which no process can receive.")
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"{name} contains a character that cannot be encoded.") from error
    return value


def check_argv(cmd: object) -> tuple[str, ...]:
    """Return the argument vector: a list as it is, a string as a ``/bin/sh`` script."""
    if isinstance(cmd, str):
        if not cmd.strip():
            raise ConfigurationError("The command is empty.")
        return ("/bin/sh", "-c", check_text(cmd, "The command"))
    kind = type(cmd).__name__
    if isinstance(cmd, bytes | bytearray) or not isinstance(cmd, Sequence):
        raise ConfigurationError(f"The command must be a str or a list of str, not {kind}.")
    items = cast("Sequence[object]", cmd)
    argv = tuple(check_text(item, f"Argument {index}") for index, item in enumerate(items))
    if not argv:
        raise ConfigurationError("The command is an empty list.")
    if not argv[0]:
        raise ConfigurationError("The command's first element, the program, is empty.")
    return argv


def check_env(env: object, name: str = "env") -> dict[str, str]:
    """Return environment variables that a process can have."""
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise ConfigurationError(f"{name} must be a mapping, not {type(env).__name__}.")
    checked: dict[str, str] = {}
    for any_key, value in cast("Mapping[object, object]", env).items():
        key = check_text(any_key, f"A key of {name}")
        if not key:
            raise ConfigurationError(f"A key of {name} is empty.")
        if "=" in key:
            # Only up to the "=": what follows it is a value, and may be a secret.
            shown = key.partition("=")[0]
            raise ConfigurationError(
                f"A key of {name} has an '=' after {shown!r}.", hint="Pass {key: value}."
            )
        checked[key] = check_text(value, f"The value of {name}[{key!r}]")
    return checked


def check_metadata(metadata: object) -> dict[str, str]:
    """Return labels."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise ConfigurationError(f"metadata must be a mapping, not {type(metadata).__name__}.")
    checked: dict[str, str] = {}
    for any_key, value in cast("Mapping[object, object]", metadata).items():
        key = check_text(any_key, "A key of metadata")
        if not key:
            raise ConfigurationError("A key of metadata is empty.")
        checked[key] = check_text(value, f"The value of metadata[{key!r}]")
    return checked


def check_data(data: object, name: str) -> bytes:
    """Return bytes; text becomes UTF-8."""
    if isinstance(data, str):
        try:
            return data.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"{name} is text that UTF-8 cannot express.", hint="Pass bytes instead."
            ) from error
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(cast("bytes", data))
    raise ConfigurationError(f"{name} must be bytes or str, not {type(data).__name__}.")


def check_code(code: object) -> bytes:
    """Return source text as UTF-8."""
    if not isinstance(code, str):
        raise ConfigurationError(f"code must be a str, not {type(code).__name__}.")
    return check_data(code, "code")


def check_path(path: object, name: str = "path") -> str:
    """Return a path in the sandbox."""
    text = check_text(path, name)
    if not text:
        raise ConfigurationError(f"{name} is empty.", hint="Use '.' for the working directory.")
    return text


def check_signal(signum: object) -> int:
    """Return the number of a signal."""
    if isinstance(signum, bool) or not isinstance(signum, int) or not 0 < signum < 65:
        raise ConfigurationError(f"{signum!r} is not the number of a signal.")
    return int(signum)


def check_template(template: object) -> str | None:
    """Return a template name or ``None``."""
    if template is None:
        return None
    text = check_text(template, "template")
    if not text:
        raise ConfigurationError("template is empty.", hint="Leave it out for the default.")
    return text


def check_network(network: object, capabilities: Capability, backend: str) -> NetworkPolicy:
    """Return a policy that this backend enforces, or refuse."""
    if not isinstance(network, NetworkPolicy):
        raise ConfigurationError(f"network must be a NetworkPolicy, not {type(network).__name__}.")
    _check_items("allow", network.allow, str)
    _check_items("ingress_ports", network.ingress_ports, int)
    if Capability.NETWORK_POLICY not in capabilities:
        raise CapabilityNotSupported(
            f"The {backend!r} backend cannot enforce a network policy, and no sandbox is created "
            "without one.",
            capability=Capability.NETWORK_POLICY,
        )
    if network.egress == "learn":
        raise CapabilityNotSupported(
            "egress='learn' is reserved and not available yet.",
            capability=Capability.NETWORK_POLICY,
            hint="Use egress='deny' or egress='allow'.",
        )
    if network.egress not in ("deny", "allow"):
        raise ConfigurationError(
            f"Unknown egress {network.egress!r}.", hint="Use egress='deny' or egress='allow'."
        )
    if network.allow and Capability.NETWORK_ALLOWLIST not in capabilities:
        raise CapabilityNotSupported(
            f"The {backend!r} backend cannot enforce a list of allowed hosts.",
            capability=Capability.NETWORK_ALLOWLIST,
            hint="Use a backend with Capability.NETWORK_ALLOWLIST, such as e2b, or egress='deny'.",
        )
    if network.ingress_ports and Capability.TUNNELS not in capabilities:
        raise CapabilityNotSupported(
            f"The {backend!r} backend cannot make ports reachable from outside.",
            capability=Capability.TUNNELS,
            hint="Leave ingress_ports empty.",
        )
    return NetworkPolicy(network.egress, tuple(network.allow), tuple(network.ingress_ports))


def _check_items(name: str, items: object, kind: type) -> None:
    if not isinstance(items, tuple | list) or not all(
        isinstance(item, kind) and not isinstance(item, bool)
        for item in cast("Sequence[object]", items)
    ):
        raise ConfigurationError(f"NetworkPolicy.{name} must be a tuple of {kind.__name__}.")


def check_resources(
    resources: object, defaults: Resources, capabilities: Capability, backend: str, hint: str
) -> Resources:
    """Return resources with every cap that the backend enforces resolved, or refuse."""
    if not isinstance(resources, Resources):
        raise ConfigurationError(f"resources must be a Resources, not {type(resources).__name__}.")
    if resources.gpu is not None and Capability.GPU not in capabilities:
        raise CapabilityNotSupported(
            f"The {backend!r} backend has no GPU.", capability=Capability.GPU
        )
    resolved: dict[str, float | None] = {}
    for name, whole in (
        ("cpu", False),
        ("memory_mb", True),
        ("disk_mb", True),
        ("processes", True),
    ):
        value: object = getattr(resources, name)
        default: float | None = getattr(defaults, name)
        if value is None:
            resolved[name] = default
            continue
        number = isinstance(value, int) or (isinstance(value, float) and not whole)
        if isinstance(value, bool) or not number:
            kind = "a whole number" if whole else "a number"
            raise ConfigurationError(
                f"Resources.{name} must be {kind}, not {type(value).__name__}."
            )
        assert isinstance(value, int | float)
        if not (math.isfinite(value) and value > 0):
            raise ConfigurationError(
                f"Resources.{name} must be above 0, not {value}. A cap can be raised, never unset."
            )
        if default is None:
            # A backend that enforces none of them has its caps in the template: that is a matter of
            # where to set them. One that merely lacks this one cannot do it.
            if name == "disk_mb" and defaults != Resources():
                raise CapabilityNotSupported(
                    f"The {backend!r} backend cannot enforce Resources.disk_mb.", hint=hint or None
                )
            raise ConfigurationError(
                f"The {backend!r} backend does not take Resources.{name}.", hint=hint or None
            )
        resolved[name] = value
    cpu, memory = resolved["cpu"], resolved["memory_mb"]
    disk, processes = resolved["disk_mb"], resolved["processes"]
    return Resources(
        cpu=cpu,
        memory_mb=None if memory is None else int(memory),
        disk_mb=None if disk is None else int(disk),
        gpu=resources.gpu,
        processes=None if processes is None else int(processes),
    )


def check_isolation(required: object, offered: IsolationTier, backend: str) -> None:
    """Refuse a backend whose tier is below what is required."""
    if required is None:
        return
    if not isinstance(required, IsolationTier):
        raise ConfigurationError(
            f"require_isolation must be an IsolationTier, not {type(required).__name__}."
        )
    if required is IsolationTier.UNKNOWN:
        raise ConfigurationError(
            "require_isolation=UNKNOWN requires nothing.",
            hint="Name a tier, for example IsolationTier.CONTAINER, or leave it out.",
        )
    if not offered.satisfies(required):
        raise ConfigurationError(
            f"The {backend!r} backend offers isolation {offered.value!r}, and {required.value!r} "
            "is required. Nothing was created.",
            hint="Use a backend of that tier, or lower require_isolation.",
        )
