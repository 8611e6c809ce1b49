"""The provider asks for fewer requests. sandboxio does not repeat a call by itself: only you know whether it may run twice.

## Most likely causes

- Too many requests in a short time, or more sandboxes at once than the account may have.
- Sandboxes that were not ended. `sandboxio reap` lists them.

## Fix

Wait `error.retry_after` seconds, if it is not `None`, and call again. A router leaves the backend alone for that long,
and takes the next one.
"""

import sandboxio
from sandboxio.testing import offline

with offline() as fake:
    fake.simulate(rate_limited=30)
    sandboxio.create_sync("e2b://")
