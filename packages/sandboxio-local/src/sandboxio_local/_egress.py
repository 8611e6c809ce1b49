"""The helpers that give a sandbox a network of its own, for ``egress="allow"``."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandboxio.errors import CapabilityNotSupported
from sandboxio.models import Capability, NetworkPolicy

__all__ = ["DENIED", "Egress", "of"]


@dataclass(frozen=True)
class Egress:
    """How a network policy is enforced.

    Attributes:
        mechanism: For `AppliedPolicy`.
        helper: Command of the program that connects the sandbox, as the warden takes it.
        nameserver: Address that the sandbox asks for names.
    """

    mechanism: str
    helper: tuple[str, ...] = ()
    nameserver: str | None = None


DENIED: Final = Egress("a network namespace of its own with nothing but loopback")

_TUN: Final = Path("/dev/net/tun")

_PASTA_NAMESERVER: Final = "169.254.1.53"
_SLIRP_NAMESERVER: Final = "10.0.2.3"


def of(policy: NetworkPolicy) -> Egress:
    """Return how a policy is enforced.

    Raises:
        CapabilityNotSupported: It cannot be, or not on this host.
    """
    if policy.allow:
        raise CapabilityNotSupported(
            "The local backend cannot enforce a list of allowed hosts.",
            capability=Capability.NETWORK_ALLOWLIST,
        )
    if policy.ingress_ports:
        raise CapabilityNotSupported(
            "The local backend opens no ports.", capability=Capability.TUNNELS
        )
    if policy.egress == "deny":
        return DENIED
    if policy.egress != "allow":
        raise CapabilityNotSupported(
            f"The local backend has no egress mode {policy.egress!r}.",
            capability=Capability.NETWORK_POLICY,
        )
    _check_tun()
    pasta = shutil.which("pasta")
    if pasta is not None:
        return Egress("pasta on a network namespace of its own", _pasta(pasta), _PASTA_NAMESERVER)
    slirp = shutil.which("slirp4netns")
    if slirp is not None:
        return Egress(
            "slirp4netns on a network namespace of its own", _slirp(slirp), _SLIRP_NAMESERVER
        )
    raise CapabilityNotSupported(
        'egress="allow" needs pasta or slirp4netns, which connect a network namespace without root.',
        capability=Capability.NETWORK_POLICY,
        hint="Install one: apt-get install passt  (or: dnf install passt, apk add passt)",
    )


def _check_tun() -> None:
    """Refuse a host where no program could make the interface that a helper makes."""
    if not _TUN.exists():
        raise CapabilityNotSupported(
            f'egress="allow" needs {_TUN}, and this host has none.',
            capability=Capability.NETWORK_POLICY,
            hint="Load the module: modprobe tun",
        )
    # Root's helper gets a device of its own.
    if os.geteuid() != 0 and not os.access(_TUN, os.R_OK | os.W_OK):
        raise CapabilityNotSupported(
            f'egress="allow" needs {_TUN}, and this user may not open it.',
            capability=Capability.NETWORK_POLICY,
            hint=f"Give it the mode that it has on most hosts: chmod 666 {_TUN}",
        )


def _pasta(path: str) -> tuple[str, ...]:
    nothing = ("--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none")
    return (
        *(path, "--foreground", "--quiet", "--config-net"),
        *nothing,  # no port leads in, and none of the host's loopback is mirrored out
        "--no-map-gw",  # the gateway's address is not a way to the host's loopback
        *("--dns-forward", _PASTA_NAMESERVER),
        *("--userns", "{user}", "--netns", "{net}"),
    )


def _slirp(path: str) -> tuple[str, ...]:
    # It takes its own mount namespace only if it is root where it is, as the caller's root makes it.
    mounts = ("--enable-sandbox",) if os.geteuid() == 0 else ()
    return (
        *(path, "--configure", "--mtu=65520", "--disable-host-loopback"),
        *(*mounts, "--enable-seccomp"),
        *("--userns-path={user}", "--netns-type=path", "{net}", "tap0"),
    )
