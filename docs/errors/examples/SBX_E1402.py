"""A cap was hit. `error.limit` names it, `error.value` is its value. Memory, processes, disk and output have classes of
their own below this one; this class itself is for caps that only a third party's backend has.

## Most likely causes

- The command needs more than the sandbox may have.
- It goes wrong and takes all that it can get.

## Fix

Raise the cap that `error.limit` names with `create(resources=Resources(...))`, or use less. Catch this class to catch
all caps.
"""

import sandboxio
from sandboxio import ResourceLimitExceeded
from sandboxio.testing import offline

with offline() as fake, sandboxio.create_sync("docker://python:3.12-slim") as sandbox:
    too_much = ResourceLimitExceeded("The cap on open files was hit.", limit="files", value=256)
    fake.on_run(match="make", raises=too_much)
    sandbox.run(["make"])
