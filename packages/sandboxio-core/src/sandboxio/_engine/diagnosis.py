"""What `sandboxio doctor` is told about a driver."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..models import Health, Resources
from ..spi import BackendDriver, Check, SupportsDiagnosis

__all__ = ["caps_of", "checks_of_health", "diagnosis"]


async def diagnosis(driver: BackendDriver) -> AsyncIterator[Check]:
    """Yield what a driver finds out by itself, or else its health, and the caps that it applies."""
    yield caps_of(driver.default_resources, driver.resources_hint)
    if isinstance(driver, SupportsDiagnosis):
        async for check in driver.diagnose():
            yield check
        return
    for check in checks_of_health(await driver.health()):
        yield check


def checks_of_health(health: Health) -> list[Check]:
    """Return the same as checks."""
    facts = [Check.passed(name, value) for name, value in health.facts]
    if health.ok:
        return [*facts, Check.passed("health", health.detail)]
    hint = health.hint or "Ask the author of this backend what that means."
    return [*facts, Check.failed("health", health.detail, hint)]


_UNITS = (
    ("cpu", "{:g} CPU"),
    ("memory_mb", "{} MiB of memory"),
    ("processes", "{} processes"),
    ("disk_mb", "{} MiB of disk"),
)


def caps_of(resources: Resources, hint: str) -> Check:
    """Return which caps a sandbox gets whose creator names none."""
    values = [(name, text, getattr(resources, name)) for name, text in _UNITS]
    capped = ", ".join(text.format(value) for _, text, value in values if value is not None)
    missing = ", ".join(name for name, _, value in values if value is None)
    if not missing:
        return Check.passed("caps", capped)
    detail = f"{capped}; not capped: {missing}" if capped else f"not capped: {missing}"
    return Check.note("caps", detail, hint)
