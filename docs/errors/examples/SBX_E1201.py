"""The backend tried, and no usable sandbox came of it. What it had made until then was destroyed.

## Most likely causes

- The machine lacks something: unprivileged user namespaces for `local://`, space or memory for Docker.
- The image or template does not exist, cannot be pulled, or has no `/bin/sh`.
- A policy was asked for, and read back, and is not in force.
- The provider has no room, which `error.retryable` says.

## Fix

The message says what was missing and `error.__cause__` what the provider said. `sandboxio demo --backend DSN` shows
whether the smallest sandbox works.
"""

import sandboxio
from sandboxio.testing import offline

with offline() as fake:
    fake.simulate(create_fails=RuntimeError("no space left on the host"))
    sandboxio.create_sync("docker://python:3.12-slim")
