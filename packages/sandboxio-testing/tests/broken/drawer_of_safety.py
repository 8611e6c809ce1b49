"""The part of the drawer with faults of policy and isolation."""

from __future__ import annotations

import faults_of_safety as safety
from fault import OUTSIDE, Fault, Instead, sandboxes

__all__ = ["SAFETY"]

SAFETY = (
    Fault(
        "deny does not deny",
        ("network.default", "network.deny-host", "network.deny-udp"),
        "template",
        Instead(safety.DenyDoesNotDeny),
        missing=safety.DenyDoesNotDeny.missing,
        may_break=OUTSIDE,
    ),
    Fault(
        "host network given under deny",
        (
            "network.default",
            "network.verified",
            "network.deny-loopback",
            "network.deny-host",
            "network.deny-udp",
            "network.apart",
            "network.provider",
            "network.deny-abstract",
        ),
        "template",
        Instead(safety.HostNetwork),
        may_break=OUTSIDE,
    ),
    Fault("privileged", ("isolation.not-privileged",), "template", Instead(safety.Privileged)),
    Fault(
        "a host directory mounted",
        ("isolation.no-host-files", "isolation.no-host-paths"),
        "template",
        Instead(safety.HostDirectoryMounted),
    ),
    Fault("cap not applied", ("caps.memory",), "template", Instead(safety.MemoryCapNotApplied)),
    Fault("unset cap accepted", ("create.bad-arguments", "caps.unset"), make=safety.CapUnset),
    Fault(
        "allowlist ignored",
        ("create.bad-arguments", "capability.undeclared", "network.allowlist-refused"),
        "few",
        safety.AllowlistIgnored,
    ),
    Fault(
        "unknown egress taken for deny",
        ("create.bad-arguments", "network.unknown-refused"),
        make=safety.LearnIsDeny,
    ),
    Fault("gpu ignored", ("capability.undeclared", "caps.gpu-refused"), make=safety.GpuIgnored),
    Fault(
        "require_isolation ignored",
        ("create.bad-arguments", "isolation.required", "isolation.unknown"),
        make=safety.IsolationNotRequired,
    ),
    Fault(
        "undeclared capability works silently",
        ("capability.undeclared",),
        make=safety.SecretlyStreaming,
    ),
    Fault(
        "more declared than proven",
        ("capability.proven", "capability.sandbox-agrees"),
        make=safety.DeclaresTooMuch,
    ),
    Fault(
        "tier overstated",
        ("isolation.reported", "audit.each-operation"),
        make=sandboxes(safety.OverstatedSandbox),
    ),
    Fault(
        "event loop blocked by a call",
        ("timeout.siblings", "concurrency.event-loop"),
        "template",
        sandboxes(safety.BlockingSandbox),
    ),
    Fault(
        "sandboxes share their files",
        ("caps.disk", "isolation.no-host-paths", "isolation.sandboxes-apart"),
        "template",
        Instead(safety.FilesShared),
    ),
)
