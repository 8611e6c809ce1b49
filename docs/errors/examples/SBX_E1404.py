"""The cap on processes refused to start one. Threads count too.

## Most likely causes

- A program that starts a process or a thread for each piece of work.
- Background processes of earlier commands, which live as long as the sandbox.
- A fork bomb.

## Fix

End what is not needed, or raise `create(resources=Resources(processes=...))`. `sandbox.policy.processes` is what is in
force.
"""

import sandboxio
from sandboxio.testing import offline

with offline() as fake, sandboxio.create_sync("docker://python:3.12-slim") as sandbox:
    fake.simulate(process_limit=True)
    sandbox.run(["make", "-j512"])
