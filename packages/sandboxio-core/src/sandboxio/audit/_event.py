"""The event: one operation, redacted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Literal

from ..models import AppliedCap, AppliedPolicy, IsolationTier

__all__ = ["AuditEvent", "Outcome"]

Outcome = Literal["ok", "error", "timeout", "cancelled", "killed", "abandoned"]
"""How an operation ended: ``"killed"`` is a stream that its reader left or killed early, and
``"abandoned"`` one that nobody had left when its sandbox was ended."""


@dataclass(frozen=True, repr=False)
class AuditEvent:
    """One operation, redacted.

    Attributes:
        ts: Aware time at which it began.
        event: ``"create"``, ``"connect"``, ``"kill"``, ``"exec"``, ``"run_code"``, ``"stream"``,
            ``"file_read"``, ``"file_write"``, ``"file_upload"``, ``"file_download"``,
            ``"file_list"``, ``"file_mkdir"``, ``"file_remove"`` or ``"file_stat"``.
        sandbox_id: Its id; for a failed create, the name chosen for it.
        backend: Name of the backend.
        isolation: Tier of the sandbox.
        tenant_id: ``metadata["tenant_id"]``.
        session_id: ``metadata["session_id"]``.
        code_sha256: Digest of the source text of ``run_code``, in hex; empty for all else.
        argv: The command, or ``None`` where there is none.
        exit_code: The command's, or ``None`` if it has none.
        duration_ms: From the call to its end.
        bytes_in: Sent into the sandbox: stdin, code, file content.
        bytes_out: Taken out of it: output, file content.
        network_denials: Attempts to reach the network that the policy blocked meanwhile; ``None``
            where the backend does not count them, which says nothing about whether there were any.
        code: The source text, with ``AuditConfig(capture_code=True)`` only.
        outcome: How it ended. A command that exits non-zero has done what it was asked: ``"ok"``.
        error_type: Class of the error that the caller got.
        error_code: Its ``SBX_Ennnn``.
        error: Its message.
        waiting_ms: Until the command had started; ``None`` where nothing is started.
        running_ms: From then on.
        path: The path in the sandbox, of a file operation.
        policy: What is in force on the sandbox, as applied.
        routing: The routing decision that chose the backend, as a JSON-like value.

    Example:
        >>> from datetime import UTC, datetime
        >>> from sandboxio import IsolationTier
        >>> AuditEvent(
        ...     ts=datetime(2026, 1, 1, tzinfo=UTC),
        ...     event="exec",
        ...     sandbox_id="sbx-1",
        ...     backend="local",
        ...     isolation=IsolationTier.CONTAINER,
        ...     tenant_id=None,
        ...     session_id=None,
        ...     code_sha256="",
        ...     argv=("true",),
        ...     exit_code=0,
        ...     duration_ms=2,
        ...     bytes_in=0,
        ...     bytes_out=0,
        ...     network_denials=None,
        ... )
        <AuditEvent exec local:sbx-1 container ok exit=0 2 ms>
    """

    ts: datetime
    event: str
    sandbox_id: str
    backend: str
    isolation: IsolationTier
    tenant_id: str | None
    session_id: str | None
    code_sha256: str
    argv: tuple[str, ...] | None
    exit_code: int | None
    duration_ms: int
    bytes_in: int
    bytes_out: int
    network_denials: int | None
    code: str | None = None
    outcome: Outcome = "ok"
    error_type: str | None = None
    error_code: str | None = None
    error: str | None = None
    waiting_ms: int | None = None
    running_ms: int | None = None
    path: str | None = None
    policy: AppliedPolicy | None = None
    routing: Mapping[str, object] | None = None

    def __repr__(self) -> str:
        where = f"{self.backend}:{self.sandbox_id[:24]} {self.isolation.value}"
        code = "" if self.exit_code is None else f" exit={self.exit_code}"
        return f"<AuditEvent {self.event} {where} {self.outcome}{code} {self.duration_ms} ms>"

    def as_dict(self) -> dict[str, object]:
        """Return the event as JSON-like values, in a stable order; every sink renders these.

        ``code`` and ``routing`` are left out where there are none.
        """
        values: dict[str, object] = {
            field.name: getattr(self, field.name) for field in fields(self)
        }
        values["ts"] = self.ts.isoformat(timespec="microseconds")
        values["isolation"] = self.isolation.value
        values["argv"] = None if self.argv is None else list(self.argv)
        values["policy"] = None if self.policy is None else _policy(self.policy)
        for name in ("code", "routing"):
            if values[name] is None:
                del values[name]
        return values

    def as_line(self) -> str:
        """Return the event as one line of JSON, without a newline at its end.

        It is ASCII: a name that is not UTF-8 is carried as surrogates, which no encoding takes.
        """
        return json.dumps(self.as_dict(), ensure_ascii=True, allow_nan=False)


def _policy(policy: AppliedPolicy) -> dict[str, object]:
    def cap(applied: AppliedCap | None) -> dict[str, object] | None:
        if applied is None:
            return None
        return {
            "value": applied.value,
            "mechanism": applied.mechanism,
            "verified": applied.verified,
        }

    return {
        "isolation": policy.isolation.value,
        "network": {
            "egress": policy.network.egress,
            "allow": list(policy.network.allow),
            "ingress_ports": list(policy.network.ingress_ports),
        },
        "network_mechanism": policy.network_mechanism,
        "network_verified": policy.network_verified,
        "lifetime_s": policy.lifetime_s,
        "cpu": cap(policy.cpu),
        "memory_mb": cap(policy.memory_mb),
        "processes": cap(policy.processes),
        "disk_mb": cap(policy.disk_mb),
        "notes": list(policy.notes),
    }
