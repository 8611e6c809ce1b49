"""The disk of the sandbox is full. A file that was to be replaced is as it was before: writes of `files` are done in full
or not at all.

## Most likely causes

- More was written than the sandbox may store.
- The host's own disk is full, on a backend without a cap.

## Fix

Remove files, or raise `create(resources=Resources(disk_mb=...))` where the backend can enforce it.
"""

import sandboxio
from sandboxio.testing import offline

with offline() as fake, sandboxio.create_sync("docker://python:3.12-slim") as sandbox:
    fake.simulate(disk_full=True)
    sandbox.files.write("big.bin", b"x" * 1000)
