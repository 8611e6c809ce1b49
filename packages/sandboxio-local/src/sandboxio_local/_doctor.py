"""What `sandboxio doctor` is told about this host, from what costs nothing to a first sandbox."""

from __future__ import annotations

import os
import platform
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import anyio

from sandboxio.errors import CapabilityNotSupported, SandboxError
from sandboxio.models import NetworkPolicy
from sandboxio.spi import Check
from sandboxio_local import _bwrap, _cgroup, _egress, _errors, _health, _plan, _python

__all__ = ["diagnose"]

_APPARMOR: Final = Path("/sys/module/apparmor/parameters/enabled")

_MOST_NAMESPACES: Final = Path("/proc/sys/user/max_user_namespaces")


async def diagnose() -> AsyncIterator[Check]:
    """Yield what is known of this host, and at last whether a sandbox can be made."""
    for look in (_machine, _bubblewrap, _interpreter, _namespaces, _apparmor, _groups, _network):
        check = await _in_thread(look)
        yield check
        if check.status == "failed" and look in (_machine, _bubblewrap):
            return  # there is nothing to make a sandbox with
    yield await _in_thread(_sandbox)


async def _in_thread(look: Callable[[], Check]) -> Check:
    # A limiter of its own, because the shared one may be in use by what waits for this.
    return await anyio.to_thread.run_sync(
        look, limiter=anyio.CapacityLimiter(1), abandon_on_cancel=True
    )


def _machine() -> Check:
    try:
        _plan.check_machine()
    except SandboxError as error:
        return Check.failed("machine", error.message, error.hint)
    return Check.passed("machine", f"Linux {os.uname().release} on {platform.machine()}")


def _bubblewrap() -> Check:
    try:
        found = _bwrap.find()
    except SandboxError as error:
        return Check.failed("bubblewrap", error.message, error.hint)
    return Check.passed("bubblewrap", f"{found.version_text} at {found.path}")


def _interpreter() -> Check:
    try:
        found = _python.on_host()
    except SandboxError as error:
        return Check.failed("guest", error.message, error.hint)
    return Check.passed(
        "guest", f"runs on Python {'.'.join(map(str, found.version))}, {found.path}"
    )


def _namespaces() -> Check:
    try:
        most = _MOST_NAMESPACES.read_text().strip()
    except OSError:
        most = "?"
    who = "root" if os.geteuid() == 0 else "this user"
    off = _errors.namespaces_off()
    # Only the sandbox that is made last tells whether it is really so: a profile may allow it.
    if off is not None:
        return Check.note("user namespaces", f"for {who}: {off[0]}", off[1])
    return Check.passed("user namespaces", f"allowed for {who}, {most} at most")


def _apparmor() -> Check:
    try:
        enabled = _APPARMOR.read_text().strip() == "Y"
    except OSError:
        enabled = False
    if not enabled:
        return Check.passed("apparmor", "not in use")
    if _bwrap.restricted_by_apparmor():
        return Check.passed("apparmor", "lets only programs with a profile use user namespaces")
    return Check.passed("apparmor", "in use; does not restrict user namespaces")


def _groups() -> Check:
    found = _cgroup.find()
    if found is None:
        return Check.note(
            "cgroup",
            "none can be made here: memory is capped for each process alone, by resource limits",
            "Run as root, or under: systemd-run --user --scope -p Delegate=yes",
        )
    places = " and ".join(dict.fromkeys(found.places.values()))
    caps = f"v{found.version}, caps {', '.join(found.places)} below {places}"
    if "cpu" not in found.places:
        return Check.note(
            "cgroup",
            f"{caps}; no CPU time, so a sandbox is bound to whole cores",
            "Delegate the cpu controller to this user.",
        )
    return Check.passed("cgroup", caps)


def _network() -> Check:
    deny = f'"deny" by {_egress.DENIED.mechanism}'
    try:
        allow = _egress.of(NetworkPolicy(egress="allow"))
    except CapabilityNotSupported as error:
        return Check.note("egress", f"{deny}; {error.message}", error.hint)
    return Check.passed("egress", f'{deny}; "allow" by {allow.mechanism}')


def _sandbox() -> Check:
    problem = _health.probe(_bwrap.find().path)
    if problem is None:
        return Check.passed("sandbox", "one was made, and is gone")
    return Check.failed("sandbox", *problem)
