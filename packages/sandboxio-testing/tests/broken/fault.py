"""What one fault consists of, and what every broken backend is held to besides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from wrapping import PassingBackend

from sandboxio.audit import AuditConfig

__all__ = ["OUTSIDE", "SAMPLE", "Fault", "Instead", "sandboxes"]

Base = Literal["fake", "few", "template"]

SAMPLE = (
    "create.usable",
    "create.describes-itself",
    "context.normal",
    "kill.real",
    "connect.attaches",
    "exec.exit-code",
    "exec.streams-apart",
    "exec.arguments-are-data",
    "env.call",
    "cwd.default",
    "stdin.empty",
    "background.not-awaited",
    "timeout.raises",
    "timeout.tree",
    "cancel.run",
    "stream.whole",
    "stream.cancelled",
    "code.runs",
    "files.round-trip",
    "files.ls",
    "transfer.round-trip",
    "capability.floor",
    "network.deny-loopback",
    "network.unknown-refused",
    "caps.unset",
    "isolation.reported",
    "secrets.given",
    "secrets.reprs",
    "errors.shape",
)
"""Clauses of every area that each broken backend is held to besides its own."""


OUTSIDE = ("network.deny-ipv6", "network.deny-metadata", "network.deny-names")
"""Clauses about what is not there on every host, so that not every host shows them broken."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: What is wrong.
        breaks: The clauses that fail because of it, and no others.
        base: What is broken: the fake, the fake without allowlist, or the template adapter.
        make: Breaks a backend; gets a working one.
        sink: Breaks an audit sink instead; gets a working one.
        may_break: Clauses that fail as well where the host has what they are about.
        missing: Says what this host lacks to show the fault, or ``None``.
    """

    name: str
    breaks: tuple[str, ...]
    base: Base = "fake"
    make: Callable[[Any], Any] | None = None
    sink: Callable[[Any], Any] | None = None
    may_break: tuple[str, ...] = ()
    missing: Callable[[], str | None] = lambda: None


def sandboxes(kind: type[Any]) -> Callable[[Any], Any]:
    """Return what makes a backend whose sandboxes are of a broken kind."""
    return type(f"{kind.__name__}Backend", (PassingBackend,), {"sandbox_type": kind})


@dataclass(frozen=True)
class Instead:
    """Makes a backend of its own, which records as it is told, instead of wrapping one."""

    kind: Callable[..., Any]

    def __call__(self, working: Any, audit: AuditConfig | None = None) -> Any:
        return self.kind(audit=audit)
