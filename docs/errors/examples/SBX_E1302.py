"""The sandbox itself lives on. A timeout is never guessed from an exit code: a command that exits with 124 or 137 by itself
is none.

## Most likely causes

- The command is slower than `timeout`, or waits for something that never comes: input, a lock, the network that the
  policy denies.
- The call had no `timeout`, and the lifetime of the sandbox ran out.

## Fix

Raise `timeout=` of this call. `error.stdout` and `error.stderr` are what it had written until then. If
`error.kill_confirmed` is false, the backend could not confirm the end in time: end the sandbox.

`except TimeoutError` does not catch it. A builtin `TimeoutError` around a call is your own deadline.
"""

import sandboxio

with sandboxio.create_sync("local://") as sandbox:
    sandbox.run("echo started; sleep 600", timeout=1)
