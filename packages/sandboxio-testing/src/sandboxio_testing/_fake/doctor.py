"""What `sandboxio doctor` is told about a fake."""

from __future__ import annotations

from dataclasses import fields

from sandboxio.spi import Check

from .faults import Faults

__all__ = ["check_of"]


def check_of(faults: Faults) -> Check:
    """Return what is simulated; what keeps every sandbox from being created is a failure."""
    going_wrong = [
        field.name for field in fields(faults) if getattr(faults, field.name) != field.default
    ]
    if not going_wrong:
        return Check.passed("simulation", "everything works; it is in memory, and runs nothing")
    detail = f"it is simulated: {', '.join(going_wrong)}"
    blocked = faults.auth_missing or faults.unreachable or faults.rate_limited is not False
    if blocked or faults.create_fails is not None:
        return Check.failed("simulation", detail, "fake.simulate()")
    return Check.note("simulation", detail, "fake.simulate()")
