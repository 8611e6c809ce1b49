"""A router went through all its backends, and none of them can take the request. The message lists each with its reason;
`error.decision` has the same as values.

## Most likely causes

- The request asks for a tier, a capability or a region that no enabled entry has.
- Every entry that fits is unhealthy, throttled, or was left alone after three failures in a row.
- The wheel of an entry's backend is missing.

## Fix

Run `sandboxio route` with the same labels and the same file: it asks every backend now. Then relax the request, or
enable an entry that satisfies it.
"""

import anyio

from sandboxio import IsolationTier
from sandboxio.routing import Router

router = Router.from_dict(
    {
        "backends": {"here": {"adapter": "local"}},
        "isolation_classes": {"standard": {"backend": "here"}},
        "default_class": "standard",
    }
)


async def main() -> None:
    await router.create(require_isolation=IsolationTier.MICROVM)


anyio.run(main)
