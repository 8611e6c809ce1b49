"""One call produced more than it may hold in memory: 64 MiB, or `SBX_MAX_OUTPUT_MB`. The command was killed. Nothing is cut
silently: `error.stdout` and `error.stderr` are the head and the tail, with a line between them where something is left out.

## Most likely causes

- A command that prints a file, a dump or a log.
- A command that prints without end.
- `files.read()` of something large or endless.

## Fix

Use `stream()` for output that you look at as it comes, and `files.download()` for files: both take constant memory. Or
let the command write less.
"""

import os

import sandboxio

os.environ["SBX_MAX_OUTPUT_MB"] = "1"

with sandboxio.create_sync("local://") as sandbox:
    sandbox.run(["yes"])
