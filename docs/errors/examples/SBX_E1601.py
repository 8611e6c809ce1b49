"""An audit sink failed or took too long, and the backend was configured with `on_sink_failure="fail"`: an operation that
could not be recorded counts as failed. What it did has happened all the same.

## Most likely causes

- The sink cannot write: a full disk, a missing right, a service that does not answer.
- It takes longer than `SBX_AUDIT_TIMEOUT`.

## Fix

Repair the sink; its own exception is `error.__cause__`. Put a slow one behind a `QueueSink`. With
`on_sink_failure="warn"`, which is the default, a failure is a warning.
"""

import sandboxio
from sandboxio.audit import AuditConfig, FileSink
from sandboxio_local import LocalBackend

audit = AuditConfig(sinks=(FileSink("/no/such/folder/audit.jsonl"),), on_sink_failure="fail")
sandboxio.register("local", lambda: LocalBackend(audit=audit))

sandboxio.create_sync("local://")
