"""`connect()`, `kill()` or a list of sandboxes was refused, or could not be confirmed in time.

## Most likely causes

- There is no sandbox with that id: it was ended, or its lifetime is over.
- It belongs to another user, another account or another engine than the one that was asked.
- sandboxio did not make it. `connect()` and `kill_managed()` touch only what carries sandboxio's label.
- The backend did not confirm a `kill()` within `SBX_TEARDOWN_GRACE` seconds.

## Fix

List what exists with `sandboxio reap`. A failed `kill()` may be repeated; what cannot be ended now ends with its
lifetime.
"""

import sandboxio

sandboxio.connect_sync("no-such-sandbox", backend="local")
