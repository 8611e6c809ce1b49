"""What came out of the sandbox breaks the protocol that its guest speaks with sandboxio, so the sandbox was ended. It is a
`SandboxGone`.

## Most likely causes

- Code in the sandbox has tampered with the guest. It has the same user, on some backends.
- The image changes Python so that the guest does not behave, for example with a `sitecustomize` that prints.

## Fix

Create a new sandbox, and treat what ran in this one as hostile. If it happens with code that you trust, report it with
the image.
"""

import sandboxio
from sandboxio.testing import offline

with offline() as fake, sandboxio.create_sync("docker://python:3.12-slim") as sandbox:
    fake.simulate(corrupted=True)
    sandbox.run(["true"])
