"""A command ended with an exit code that is not 0, and `raise_for_status()` was called on its result. Without that call an
exit code is a value, and no error.

## Most likely causes

- The command failed. Its own words are in `error.result.stderr`, and not in the message: they may hold secrets.
- The program is not there: exit code 127. It may not be run: 126.
- It died of a signal: 128 and the number of the signal, for example 139 for a segmentation fault.

## Fix

Look at `error.result`. If the exit code is an answer and no failure, as with `grep`, look at `result.exit_code`
instead.
"""

import sandboxio

with sandboxio.create_sync("local://") as sandbox:
    sandbox.run(["ls", "/no/such/folder"]).raise_for_status()
