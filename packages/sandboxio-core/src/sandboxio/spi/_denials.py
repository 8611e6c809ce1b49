"""How a driver tells what the network policy blocked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from ._driver import SandboxDriver

__all__ = ["CountsDenials", "denials_of"]


@runtime_checkable
class CountsDenials(Protocol):
    """A `SandboxDriver` that knows how often the network policy blocked something.

    Only for a driver that counts that itself, or whose provider does. Without it, records say that
    the number is not known, which is not the same as 0.
    """

    @property
    def network_denials(self) -> int:
        """Blocked attempts since the sandbox began, as far as known now; never waits."""
        ...


def denials_of(driver: SandboxDriver) -> Callable[[], int] | None:
    """Return what asks a driver for its count, or ``None`` if it does not count."""
    if not isinstance(driver, CountsDenials):
        return None
    counting: CountsDenials = driver
    return lambda: counting.network_denials
