"""The path does not exist. It is a path in the sandbox, except for the local side of `upload()` and `download()`.

## Most likely causes

- A relative path starts at the working directory of the sandbox, usually `/work`, and not at a `cwd=` of another call.
- The file was written in another sandbox. Each starts empty.
- The directory of a file that is to be written does not exist. `mkdir(path, parents=True)` makes it.
- `run(cwd=...)` names a directory that does not exist.

## Fix

Look at what is there: `sandbox.files.ls()`.
"""

import sandboxio

with sandboxio.create_sync("local://") as sandbox:
    sandbox.files.read("results.csv")
