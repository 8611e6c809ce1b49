"""An operation on files failed, for another reason than a missing path. `error.path` is the path.

## Most likely causes

- The path is a directory where a file is needed, or the other way round.
- The user of the sandbox may not do that there.
- It is a device, a pipe or a socket. `files` touches regular files and directories only.
- The local side of `upload()` is a link, which is never followed.

## Fix

Look at what is there: `files.stat()` and `files.ls()`. `/work` and `/tmp` are always writable.
"""

import sandboxio

with sandboxio.create_sync("local://") as sandbox:
    sandbox.files.read("/work")
