"""Requests that have to be refused before anything is created."""

from __future__ import annotations

from collections.abc import Awaitable

from sandboxio.errors import CapabilityNotSupported, ConfigurationError

from ._attempts import attempt
from ._oracle import Oracle

__all__ = ["Refusal", "refused"]

Refusal = CapabilityNotSupported | ConfigurationError


async def refused(oracle: Oracle, create: Awaitable[object]) -> Refusal:
    """Fail unless a create is refused, with a hint, and makes nothing; return the refusal."""
    before = await oracle.sandboxes()
    error = await attempt(create)
    left = await oracle.sandboxes() - before
    for sandbox_id in left:
        await oracle.destroy_if_it_can(sandbox_id)
    assert isinstance(error, Refusal), f"it was not refused, but came to {error!r}"
    assert not left, f"it was refused, and left {left}"
    assert error.hint
    return error
