"""What an adapter loads before it is asked for the first time."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["SupportsLoading"]


@runtime_checkable
class SupportsLoading(Protocol):
    """A `BackendDriver`, or a backend, whose SDK takes long to import.

    Making a backend does not load its SDK, so the first call would pay for that, out of the two
    seconds that a health check has. Whoever asks within such a bound lets it load before.
    """

    async def load(self) -> None:
        """Import what takes long, off the event loop; does no I/O otherwise, and nothing twice."""
        ...
