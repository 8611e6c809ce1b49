"""What `doctor` found, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..models import IsolationTier
from ..spi import Check

if TYPE_CHECKING:
    from ..routing import EntryStatus

__all__ = ["BackendReport", "DoctorReport", "RoutingReport"]


@dataclass(frozen=True, kw_only=True)
class BackendReport:
    """How one backend is.

    Attributes:
        name: The scheme of its DSN.
        installed: Whether its wheel is there, or the caller registered it.
        summary: One line about it.
        install: The command that installs it, if known.
        versions: Its wheel and what that requires, with their versions.
        isolation: Tier of its sandboxes by default; ``None`` if it could not be asked.
        isolation_evidence: Where that tier is documented.
        isolation_date: When that was read, ISO 8601.
        credentials: Environment variables that it needs, by name, and whether each is set.
        checks: What was looked at, in order.
    """

    name: str
    installed: bool
    summary: str = ""
    install: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    isolation: IsolationTier | None = None
    isolation_evidence: str = ""
    isolation_date: str = ""
    credentials: tuple[tuple[str, bool], ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed that was looked at."""
        return not any(check.status == "failed" for check in self.checks)

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON-like values."""
        return {
            "name": self.name,
            "installed": self.installed,
            "ok": self.installed and self.ok,
            "summary": self.summary,
            "install": self.install,
            "versions": dict(self.versions),
            "isolation": {
                "tier": None if self.isolation is None else self.isolation.value,
                "evidence": self.isolation_evidence,
                "date": self.isolation_date,
            },
            "credentials": [{"variable": name, "set": is_set} for name, is_set in self.credentials],
            "checks": [check.as_dict() for check in self.checks],
        }


@dataclass(frozen=True, kw_only=True)
class RoutingReport:
    """How the entries of a router are.

    Attributes:
        source: The routing file, or ``auto://``.
        entries: Each entry, with the state of its circuit.
        taken: The entry that a request without labels would take; ``None`` if that was not asked.
        checks: What is wrong with the file or its entries.
    """

    source: str
    entries: tuple[EntryStatus, ...] = ()
    taken: str | None = None
    checks: tuple[Check, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every enabled entry can be used."""
        return not any(check.status == "failed" for check in self.checks)

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON-like values."""
        return {
            "source": self.source,
            "ok": self.ok,
            "taken": self.taken,
            "entries": [
                {
                    "name": entry.name,
                    "backend": entry.backend,
                    "enabled": entry.enabled,
                    "circuit": entry.circuit,
                    "failures": entry.failures,
                    "opens_in_s": entry.opens_in,
                    "last_failure": entry.last_failure,
                }
                for entry in self.entries
            ],
            "checks": [check.as_dict() for check in self.checks],
        }


@dataclass(frozen=True, kw_only=True)
class DoctorReport:
    """What `doctor` found. It holds no secret: credentials are named, never shown.

    Attributes:
        versions: Of sandboxio-core, of Python and of the platform.
        backends: Every backend that is installed, registered or known, sorted by name.
        routing: The router that was asked about.

    Example:
        >>> import sandboxio
        >>> def usable() -> list[str]:
        ...     found = sandboxio.doctor().backends
        ...     return [backend.name for backend in found if backend.installed and backend.ok]
    """

    versions: tuple[tuple[str, str], ...]
    backends: tuple[BackendReport, ...]
    routing: RoutingReport | None = field(default=None)

    @property
    def ok(self) -> bool:
        """Whether no check failed, of an installed backend or of the router."""
        return all(backend.ok for backend in self.backends if backend.installed) and (
            self.routing is None or self.routing.ok
        )

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON-like values; what ``sandboxio doctor --json`` prints."""
        return {
            "ok": self.ok,
            "versions": dict(self.versions),
            "backends": [backend.as_dict() for backend in self.backends],
            "routing": None if self.routing is None else self.routing.as_dict(),
        }
