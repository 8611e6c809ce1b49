"""The network of a fake sandbox: a policy, and hosts that answer what a test says."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

from sandboxio.models import NetworkPolicy

__all__ = ["Egress", "Internet", "Page", "Reply", "permits"]


@dataclass(frozen=True)
class Egress:
    """An attempt of code in a sandbox to reach something.

    Attributes:
        url: What it wanted.
        host: The host of it.
        allowed: Whether the policy of its sandbox let it.
    """

    url: str
    host: str
    allowed: bool


@dataclass(frozen=True)
class Page:
    """What a URL answers."""

    match: str
    status: int
    body: bytes


class Reply(Enum):
    """How far a request came, where it brought no page."""

    DENIED_NAME = "Could not resolve host"
    DENIED_ADDRESS = "Network is unreachable"
    REFUSED = "Connection refused"


def permits(policy: NetworkPolicy, host: str) -> bool:
    """Say whether a policy lets a host be reached.

    An entry of the list is a host name, ``*.`` and a domain for all below it, an address, or a
    network in CIDR notation.
    """
    if policy.egress == "allow":
        return True
    return any(_fits(entry.lower(), host.lower()) for entry in policy.allow)


def _fits(entry: str, host: str) -> bool:
    if entry.startswith("*."):
        return host.endswith(entry[1:])
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return entry == host


class Internet:
    """What all sandboxes of one fake can reach. Nothing of it is real."""

    def __init__(self) -> None:
        self.attempts: list[Egress] = []
        self._pages: list[Page] = []

    def answer(self, page: Page) -> None:
        """Let URLs that contain a text answer; what was said last counts first."""
        self._pages.insert(0, page)

    def request(self, policy: NetworkPolicy, url: str) -> Page | Reply:
        """Ask for a URL as code in a sandbox with that policy does."""
        host = urlsplit(url if "://" in url else f"http://{url}").hostname or ""
        allowed = permits(policy, host)
        self.attempts.append(Egress(url, host, allowed))
        if not allowed:
            return Reply.DENIED_ADDRESS if _is_address(host) else Reply.DENIED_NAME
        for page in self._pages:
            if page.match in url:
                return page
        return Page(url, 200, f"{host} of the fake internet\n".encode())


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
