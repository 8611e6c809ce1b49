"""`create()` took longer than its `timeout`, and what it had begun was destroyed. Two `except` clauses catch it:
`CreationError` and `SandboxTimeout`.

## Most likely causes

- The provider is slow or stuck. It is not the network of the sandbox: that plays no part in a create.
- `timeout` is meant as a bound for commands and is very small. It bounds the life of the sandbox, its create included.
- The machine is overloaded.

## Fix

Raise `create(timeout=...)`, and give commands their own: `run(..., timeout=...)`. Pulling an image is not taken out of
this time; it has `DockerConfig(pull_timeout=...)`.
"""

import sandboxio
from sandboxio.testing import offline

with offline() as fake:
    fake.simulate(create_takes=3600)  # seconds of the fake's own clock
    sandboxio.create_sync("docker://python:3.12-slim", timeout=60)
