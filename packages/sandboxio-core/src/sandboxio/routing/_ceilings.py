"""The policy of a routing file: what holds when a caller says nothing, and what none may exceed.

What is above a ceiling is refused, never cut down in silence.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import TypeVar, cast

from .._engine.validation import check_timeout
from ..errors import ConfigurationError
from ..models import NetworkPolicy, Resources
from ._file import Limits, Policy
from ._request import CreateArguments

__all__ = ["governed"]


def governed(policy: Policy, arguments: CreateArguments) -> CreateArguments:
    """Return the arguments of a create with the policy's defaults filled in.

    Raises:
        ConfigurationError: An argument asks for more than the policy allows. No backend is asked.
    """
    if not isinstance(cast("object", arguments.resources), Resources):
        raise ConfigurationError("resources must be a Resources.")
    return replace(
        arguments,
        network=_network(policy.network, arguments.network),
        resources=_resources(policy.limits, arguments.resources),
        timeout=_timeout(policy.limits.timeout_s, arguments.timeout),
    )


def _refused(what: str, ceiling: object, asked: object) -> ConfigurationError:
    return ConfigurationError(
        f"The routing file's policy allows {what} up to {ceiling}, and {asked} was asked for. "
        "Nothing was created.",
        hint=f"Ask for less, or raise policy.{what} in the routing file.",
    )


def _timeout(ceiling: float | None, asked: float | None) -> float | None:
    if asked is None:
        return ceiling
    if ceiling is not None and check_timeout(asked) > ceiling:
        raise _refused("limits.timeout_s", f"{ceiling:g} s", f"{asked:g} s")
    return check_timeout(asked)


def _resources(limits: Limits, asked: Resources) -> Resources:
    return replace(
        asked,
        cpu=_cap("cpu", limits.cpu, asked.cpu),
        memory_mb=_cap("memory_mb", limits.memory_mb, asked.memory_mb),
        disk_mb=_cap("disk_mb", limits.disk_mb, asked.disk_mb),
        processes=_cap("processes", limits.processes, asked.processes),
    )


Number = TypeVar("Number", int, float)


def _cap(name: str, ceiling: Number | None, asked: Number | None) -> Number | None:
    if ceiling is None or asked is None:
        return ceiling if asked is None else asked
    # Whatever is no number is refused by the engine.
    if isinstance(cast("object", asked), int | float) and not asked <= ceiling:
        raise _refused(f"limits.{name}", f"{ceiling:g}", f"{asked:g}")
    return asked


def _network(ceiling: NetworkPolicy | None, asked: NetworkPolicy | None) -> NetworkPolicy | None:
    if asked is None:
        return ceiling
    if not isinstance(cast("object", asked), NetworkPolicy):
        raise ConfigurationError(f"network must be a NetworkPolicy, not {type(asked).__name__}.")
    if ceiling is None:
        return asked
    if ceiling.egress != "allow":
        if asked.egress != "deny":
            raise _refused("network.egress", repr(ceiling.egress), repr(asked.egress))
        for host in asked.allow:
            if not any(_covers(allowed, host) for allowed in ceiling.allow):
                raise _refused("network.allow", list(ceiling.allow), repr(host))
    for port in asked.ingress_ports:
        if port not in ceiling.ingress_ports:
            raise _refused("network.ingress_ports", list(ceiling.ingress_ports), port)
    return asked


def _covers(allowed: str, asked: object) -> bool:
    """Whether an allowed host or network includes one that was asked for; in doubt, no."""
    if not isinstance(asked, str):
        return False
    if allowed.lower() == asked.lower():
        return True
    try:
        outer, inner = ipaddress.ip_network(allowed), ipaddress.ip_network(asked)
    except ValueError:
        return False
    if isinstance(outer, ipaddress.IPv4Network) and isinstance(inner, ipaddress.IPv4Network):
        return inner.subnet_of(outer)
    if isinstance(outer, ipaddress.IPv6Network) and isinstance(inner, ipaddress.IPv6Network):
        return inner.subnet_of(outer)
    return False
