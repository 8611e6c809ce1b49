"""From what a warden reports to an error that says what is wrong and how to repair it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sandboxio.errors import CreationError
from sandboxio_local._bwrap import restricted_by_apparmor

__all__ = ["failure", "namespaces_off"]

DETAIL: Final = 600
"""Characters of a report that go into a message."""

_BY_TEXT: Final = (
    (
        ("Can't mount proc", "mount proc on"),
        "This process runs in a container that hides parts of /proc, so no new /proc can be mounted.",
        "Start the container with --security-opt systempaths=unconfined, or use the docker backend.",
    ),
    (
        ("nesting depth or", "No space left on device"),
        "The limit on namespaces is reached.",
        "Raise it: sysctl -w user.max_user_namespaces=15000 user.max_mnt_namespaces=15000",
    ),
    (
        ("unshare Operation not permitted", "unshare: Operation not permitted"),
        "Root may not make namespaces here, as in a container without CAP_SYS_ADMIN.",
        (
            "Start the container with --cap-add SYS_ADMIN --security-opt seccomp=unconfined "
            "--security-opt apparmor=unconfined, or use the docker backend."
        ),
    ),
)

_BY_PART: Final = {
    "cgroup": (
        "A control group could not be made or does not take a cap",
        "Check the caps against those of this process's own control group.",
    ),
    "network": (
        "The sandbox could not be connected to the network",
        "Run pasta or slirp4netns by hand to see why, or use egress='deny'.",
    ),
    "limits": ("A resource limit could not be set", "Check the limits of this process: ulimit -a"),
    "namespace": ("A namespace could not be made", "Run: sandboxio doctor"),
}


def failure(report: str) -> CreationError:
    """Return the error for a report ``failed PART DETAIL`` or ``ended REASON: DETAIL``."""
    kind, _, rest = report.partition(" ")
    part, _, detail = rest.partition(" ")
    detail = detail[:DETAIL]
    for texts, message, hint in _BY_TEXT:
        if any(text in report for text in texts):
            return CreationError(message, hint=hint)
    if kind == "failed" and part in _BY_PART:
        message, hint = _BY_PART[part]
        return CreationError(f"{message}: {detail}", hint=hint)
    reason = namespaces_off()
    if reason is not None:
        return CreationError(reason[0], hint=reason[1])
    if kind == "ended" and part.startswith("lifetime"):
        return CreationError("The sandbox's lifetime was over before it had started.")
    return CreationError(f"The sandbox ended while it was made: {detail or report[:DETAIL]}")


def namespaces_off() -> tuple[str, str] | None:
    """Return what keeps this user from making user namespaces, and the repair; or ``None``."""
    if not Path("/proc/self/ns/user").exists():
        return (
            "This kernel has no user namespaces.",
            "Use a kernel with CONFIG_USER_NS, or the docker backend.",
        )
    if _sysctl("user/max_user_namespaces") == "0":
        return (
            "User namespaces are switched off on this host.",
            "Switch them on: sysctl -w user.max_user_namespaces=15000",
        )
    if os.geteuid() == 0:
        return None
    if _sysctl("kernel/unprivileged_userns_clone") == "0":
        return (
            "Only root may make user namespaces on this host.",
            "Allow it: sysctl -w kernel.unprivileged_userns_clone=1",
        )
    if restricted_by_apparmor():
        return (
            "AppArmor keeps programs without a profile from using user namespaces.",
            (
                "Allow it: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0  "
                "(or install a profile for bwrap: apt-get install apparmor-profiles)"
            ),
        )
    return None


def _sysctl(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""
