"""What an operation leaves behind: `AuditEvent`, where it goes, and what happens when it cannot.

    from sandboxio.audit import AuditConfig, FileSink
    from sandboxio_local import LocalBackend

    backend = LocalBackend(audit=AuditConfig(sinks=(FileSink("audit.jsonl"),)))

Every ``run``, ``run_code``, stream, file operation, create, connect and kill makes one event. It is
redacted once, before any sink sees it. Sinks belong to one backend object; nothing is global.
"""

from __future__ import annotations

from ._config import AuditConfig, AuditSink, LoggingSink, NoopSink
from ._event import AuditEvent, Outcome
from ._file import FileSink
from ._queue import QueueSink

__all__ = [
    "AuditConfig",
    "AuditEvent",
    "AuditSink",
    "FileSink",
    "LoggingSink",
    "NoopSink",
    "Outcome",
    "QueueSink",
]
