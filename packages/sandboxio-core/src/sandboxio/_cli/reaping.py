"""Listing what backends still hold, telling orphans from what is in use, and ending the former."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import anyio

from .._wiring.known import INSTALL_HINTS
from .._wiring.registry import Registry, default_registry
from ..errors import BackendNotInstalled, SandboxError
from ..models import ManagedSandbox

if TYPE_CHECKING:
    from ..protocols import Backend

__all__ = ["Held", "Listing", "ReapReport", "Verdict", "reap"]

LIST_BOUND = 40.0
"""Seconds that a backend has to list what it holds; the engine gives its drivers 30."""

KILL_BOUND = 40.0
"""Seconds that a backend has to end one sandbox; the engine gives its drivers 30."""

AT_ONCE = 8
"""Sandboxes that are ended at the same time."""

Verdict = Literal["orphan", "in use", "unknown"]
"""Whether the owner of a sandbox is dead, lives, or cannot be looked at from here."""


@dataclass
class Held:
    """A sandbox that a backend holds, and what became of it."""

    sandbox: ManagedSandbox
    outcome: Literal["ended", "gone", "left alone", "failed"] | None = None
    error: str | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether it is an orphan."""
        if self.sandbox.owner_alive is None:
            return "unknown"
        return "in use" if self.sandbox.owner_alive else "orphan"

    @property
    def age_s(self) -> float | None:
        """Seconds since it was created."""
        created = self.sandbox.created_at
        return None if created is None else max(0.0, (datetime.now(UTC) - created).total_seconds())

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON-like values."""
        sandbox = self.sandbox
        created, age = sandbox.created_at, self.age_s
        return {
            "sandbox_id": sandbox.sandbox_id,
            "state": sandbox.state,
            "created_at": None if created is None else created.isoformat(),
            "age_s": None if age is None else round(age, 1),
            "owner": sandbox.owner,
            "owner_alive": sandbox.owner_alive,
            "verdict": self.verdict,
            "labels": sandbox.labels,
            "outcome": self.outcome,
            "error": self.error,
        }


@dataclass
class Listing:
    """What one backend holds, or why that is not known."""

    backend: str
    status: Literal["listed", "not installed", "not supported", "failed"]
    detail: str = ""
    hint: str | None = None
    held: list[Held] = field(default_factory=list[Held])

    @property
    def ok(self) -> bool:
        """Whether it was listed, if it is there, and nothing that was to be ended was not."""
        return self.status != "failed" and not any(one.outcome == "failed" for one in self.held)

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON-like values."""
        return {
            "backend": self.backend,
            "status": self.status,
            "detail": self.detail,
            "hint": self.hint,
            "sandboxes": [one.as_dict() for one in self.held],
        }


@dataclass
class ReapReport:
    """What all backends hold, and what was done about it."""

    kill: bool
    labels: Mapping[str, str]
    listings: list[Listing] = field(default_factory=list[Listing])

    @property
    def ok(self) -> bool:
        """Whether all was listed, and nothing that was to be ended was not."""
        return all(listing.ok for listing in self.listings)

    @property
    def held(self) -> list[Held]:
        """Every sandbox of every backend."""
        return [one for listing in self.listings for one in listing.held]

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON-like values."""
        return {
            "ok": self.ok,
            "kill": self.kill,
            "labels": dict(self.labels),
            "backends": [listing.as_dict() for listing in self.listings],
        }


@runtime_checkable
class Reapable(Protocol):
    """What can be asked of a `ReapableBackend`."""

    async def list_managed(
        self, *, labels: Mapping[str, str] | None = None
    ) -> list[ManagedSandbox]: ...

    async def kill_managed(self, sandbox_id: str) -> bool: ...


async def reap(
    names: Sequence[str],
    labels: Mapping[str, str],
    *,
    kill: bool,
    include: frozenset[Verdict],
) -> ReapReport:
    """List what backends hold, all at once; with `kill`, end those with a verdict in `include`.

    Args:
        names: Backends; all that are installed or known if empty.
        labels: Only sandboxes with all of these.
        kill: Whether anything is ended.
        include: What is ended then.
    """
    registry = default_registry()
    asked = list(dict.fromkeys(names)) or sorted({*INSTALL_HINTS, *registry.names()})
    report = ReapReport(kill=kill, labels=labels)
    report.listings = [Listing(name, "failed") for name in asked]
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def one(listing: Listing) -> None:
        backend = await _list(listing, registry, labels, explicit=bool(names))
        if kill and backend is not None:
            async with anyio.create_task_group() as endings:
                for held in listing.held:
                    if held.verdict in include:
                        endings.start_soon(_end, backend, held, limiter)
                    else:
                        held.outcome = "left alone"

    async with anyio.create_task_group() as group:
        for listing in report.listings:
            group.start_soon(one, listing)
    return report


async def _list(
    listing: Listing, registry: Registry, labels: Mapping[str, str], *, explicit: bool
) -> Reapable | None:
    try:
        backend: Backend = registry.backend(listing.backend)
    except BackendNotInstalled as error:
        listing.status, listing.detail, listing.hint = "not installed", error.message, error.hint
        return None
    except SandboxError as error:
        listing.detail, listing.hint = error.message, error.hint
        return None
    except Exception as error:  # noqa: BLE001 - such as an SDK that cannot be imported
        listing.detail = f"it cannot be made: {type(error).__name__}: {error}"
        listing.hint = f"sandboxio doctor {listing.backend}"
        return None
    if not isinstance(backend, Reapable):
        listing.status = "failed" if explicit else "not supported"
        listing.detail = "this backend does not list its sandboxes"
        return None
    with anyio.move_on_after(LIST_BOUND):
        try:
            found = await backend.list_managed(labels=labels or None)
        except SandboxError as error:
            listing.detail, listing.hint = error.message, error.hint
            return None
        except Exception as error:  # noqa: BLE001 - a backend of any make must not stop others
            listing.detail = f"{type(error).__name__}: {error}"
            return None
        listing.status = "listed"
        listing.held = [Held(sandbox) for sandbox in sorted(found, key=_oldest_first)]
        return backend
    listing.detail = f"it did not answer within {LIST_BOUND:g} s"
    listing.hint = f"sandboxio doctor {listing.backend}"
    return None


def _oldest_first(sandbox: ManagedSandbox) -> tuple[float, str]:
    created = sandbox.created_at
    return (0.0 if created is None else created.timestamp(), sandbox.sandbox_id)


async def _end(backend: Reapable, held: Held, limiter: anyio.CapacityLimiter) -> None:
    async with limiter:
        with anyio.move_on_after(KILL_BOUND):
            try:
                ended = await backend.kill_managed(held.sandbox.sandbox_id)
            except SandboxError as error:
                held.outcome, held.error = "failed", f"{error.message} ({error.hint})"
            except Exception as error:  # noqa: BLE001 - as above
                held.outcome, held.error = "failed", f"{type(error).__name__}: {error}"
            else:
                held.outcome = "ended" if ended else "gone"
            return
        held.outcome, held.error = "failed", f"no answer within {KILL_BOUND:g} s"
