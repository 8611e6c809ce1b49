"""`except SandboxTimeout` does not catch it.

## Most likely causes

- Its lifetime is over: the `timeout` of `create()`, 300 seconds if not given.
- `kill()` or `close()` was called, or the `async with` block was left.
- The process that created it has ended. On `local://` and `docker://`, a sandbox ends with its creator.
- The provider or an operator reclaimed it.

## Fix

Create a new one, with `create(timeout=...)` long enough for everything that is to happen in it. Keep what has to
outlive a sandbox outside of it, with `files.download()`.
"""

import sandboxio

with sandboxio.create_sync("local://") as sandbox:
    sandbox.kill()
    sandbox.run(["true"])
