"""The memory cap killed the command. sandboxio reads the kernel's own count of such kills; it does not take exit code 137
for one.

## Most likely causes

- The command needs more memory than the cap, 512 MiB unless you said otherwise.
- Files below `/tmp` or `/dev/shm` of the sandbox count as memory where these are in memory.

## Fix

`create(resources=Resources(memory_mb=2048))`. On E2B memory belongs to the template. `sandbox.policy.memory_mb` is what
is in force.
"""

import sandboxio
from sandboxio.testing import offline

with offline() as fake, sandboxio.create_sync("docker://python:3.12-slim") as sandbox:
    fake.simulate(out_of_memory=True)
    sandbox.run(["python3", "train.py"])
