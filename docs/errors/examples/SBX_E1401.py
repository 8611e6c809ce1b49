"""Code in the sandbox tried to reach something that the policy denies, and the backend tells such attempts from other
failures.

Most backends cannot tell: their sandbox has no network at all, so the program inside gets an ordinary error ("Network is
unreachable") and the call returns its exit code.

## Most likely causes

- The code needs the network, and the policy is the default, which denies everything.
- The host is not in `NetworkPolicy(allow=...)`.

## Fix

Bring what the code needs with `files.upload()`, or build it into the image. If it has to have the network, say so at
create: `network=NetworkPolicy(egress="allow")`.
"""

import sandboxio
from sandboxio.testing import offline

with offline() as fake, sandboxio.create_sync("docker://python:3.12-slim") as sandbox:
    fake.simulate(egress_violation=True)
    sandbox.run(["curl", "https://example.com"])
