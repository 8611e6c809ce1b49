"""sandboxio knows this backend, and the wheel that provides it is not in this environment.

## Most likely causes

- Only `sandboxio` or `sandboxio-core` was installed. No backend comes with them.
- The program runs in another environment than the one that the wheel was installed into.
- `create()` without a target means Docker.

## Fix

Run the command in the hint in the environment of your program.
"""

import sandboxio
from sandboxio.testing import offline

with offline(missing=["e2b"]):  # as where its wheel is not installed
    sandboxio.create_sync("e2b://")
