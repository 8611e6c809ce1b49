"""The provider failed in a way that has no code yet. `error.__cause__` is its own exception.

## Most likely causes

- A new version of the provider's SDK raises something new.
- A server or a daemon in between answers with something unusual.
- A bug in the adapter.

## Fix

Look at `__cause__`. If others will meet it too, report it: a failure that is common gets a code, a message and a hint.
"""

import sandboxio
from sandboxio.testing import offline

with offline() as fake, sandboxio.create_sync("docker://python:3.12-slim") as sandbox:
    fake.simulate(run_fails=RuntimeError("something new"))
    sandbox.run(["true"])
