"""The call needs something that this sandbox cannot do. Nothing was started, and nothing was pretended: an option that a
backend cannot honour is refused, never ignored.

## Most likely causes

- `run_code(context_id=...)` on a backend without an interpreter that keeps variables. E2B has one.
- `NetworkPolicy(allow=...)` on a backend that can only allow all or nothing.
- `Resources(...)` with a cap that the backend cannot enforce.
- `stream()`, `stdin=` or `run_code()` on a backend or an image that has no way for it.

## Fix

Look before you call: `Capability.STATEFUL_CODE in sandbox.capabilities`. Capabilities belong to a sandbox, and not to
the name of a backend. Or take a backend that declares it.
"""

import sandboxio

with sandboxio.create_sync("local://") as sandbox:
    sandbox.run_code("x = 1", context_id="session 1")
