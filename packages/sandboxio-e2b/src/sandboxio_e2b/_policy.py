"""Network rules as E2B has them, and what of a sandbox's policy can be read back."""

from __future__ import annotations

import ipaddress
import re

from sandboxio.errors import ConfigurationError, CreationError
from sandboxio.models import AppliedCap, AppliedPolicy, IsolationTier, NetworkPolicy
from sandboxio_e2b._info import Info

__all__ = ["check_network", "policy_of"]

HOST = re.compile(r"(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]{0,62})?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,62})?")

MECHANISM = "E2B's egress rules of the microVM"

ALL = "0.0.0.0/0"


def check_network(network: NetworkPolicy) -> None:
    """Refuse rules that E2B would read in another way than they were meant.

    Raises:
        ConfigurationError: An entry is neither a host nor an address, or the policy contradicts
            itself.
    """
    if network.allow and network.egress == "allow":
        raise ConfigurationError(
            "NetworkPolicy has egress='allow' and a list of what is allowed.",
            hint="Give the list with egress='deny', or no list.",
        )
    for entry in network.allow:
        if not _is_address(entry) and not HOST.fullmatch(entry):
            raise ConfigurationError(
                f"NetworkPolicy.allow has {entry!r}, which is neither a host name nor an address.",
                hint="For example: allow=('api.example.com', '10.1.0.0/16'). No scheme, no port.",
            )


def _is_address(entry: str) -> bool:
    try:
        ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
    return True


def policy_of(
    info: Info, asked: NetworkPolicy | None, lifetime: float, isolation: IsolationTier
) -> AppliedPolicy:
    """Return what E2B says is in force; ``asked`` is ``None`` if that is not known.

    Raises:
        CreationError: It is not what was asked for.
    """
    told = _network(info)
    if asked is not None and told is not None and not _same(asked, told):
        raise CreationError(
            f"E2B applied other network rules than it was asked for: {told} instead of {asked}.",
            retryable=False,
        )
    return AppliedPolicy(
        isolation=isolation,
        network=asked or told or NetworkPolicy("allow"),
        network_mechanism=MECHANISM,
        network_verified=told is not None,
        lifetime_s=lifetime,
        cpu=AppliedCap(info.cpu, "the template's machine", verified=True),
        memory_mb=AppliedCap(info.memory_mb, "the template's machine", verified=True),
        notes=("CPU, memory and disk are those of the E2B template.",),
    )


def _network(info: Info) -> NetworkPolicy | None:
    if info.allow:
        return NetworkPolicy("deny" if ALL in (info.deny or ()) else "allow", info.allow)
    if info.internet is False or ALL in (info.deny or ()):
        return NetworkPolicy("deny")
    if info.internet is True:
        return NetworkPolicy("allow")
    return None


def _same(asked: NetworkPolicy, told: NetworkPolicy) -> bool:
    return asked.egress == told.egress and set(asked.allow) == set(told.allow)
