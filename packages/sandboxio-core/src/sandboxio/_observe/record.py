"""The one record of one operation, and the audit event that it becomes.

A record is open while its operation runs, and counts. When it is closed, it is rendered once, with
all secrets masked: sinks, span and log line are given that. Nothing is hashed, masked or built
unless somebody listens.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from ..audit import AuditEvent, Outcome
from ..errors import SandboxError, SandboxTimeout
from ..models import AppliedPolicy, IsolationTier, Meter
from .redaction import Redactor

if TYPE_CHECKING:
    from opentelemetry.trace import Span

__all__ = ["Record", "Subject"]


@dataclass
class Subject:
    """The sandbox that operations are about, as far as it is known.

    Attributes:
        sandbox_id: Its id, or the name chosen for one that is being created.
        backend: Name of the backend.
        isolation: Its tier.
        redactor: Masks its secrets.
        labels: The caller's metadata.
        policy: What is in force.
        routing: What chose the backend, JSON-like.
        denials: How many attempts to reach the network were blocked so far; ``None`` if the backend
            does not count them.
        now: The time in seconds by which its operations are measured.
    """

    sandbox_id: str
    backend: str
    isolation: IsolationTier
    redactor: Redactor
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    policy: AppliedPolicy | None = None
    routing: Mapping[str, object] | None = None
    denials: Callable[[], int] | None = None
    now: Callable[[], float] = time.monotonic


class Record:
    """What is known of one operation. Whoever runs the operation writes to its fields.

    Attributes:
        event: What it is; see `AuditEvent`.
        argv: The command.
        path: The path in the sandbox.
        code: The source text.
        bytes_in: Sent into the sandbox so far.
        bytes_out: Taken out of it so far.
        exit_code: The command's, once it has ended.
        killed: Whether the caller ended it early.
        abandoned: Whether it is over because its sandbox is, and not because anybody left it.
        network_denials: Attempts to reach the network that were blocked meanwhile, once closed.
        error: What the operation itself raised, when that is not what ends it.
        span: The open span, if there is one that records.
        observed: Whether anybody listens.
    """

    __slots__ = (
        "abandoned",
        "argv",
        "began",
        "began_ns",
        "bytes_in",
        "bytes_out",
        "code",
        "denied_before",
        "ended",
        "error",
        "event",
        "exit_code",
        "killed",
        "network_denials",
        "observed",
        "path",
        "span",
        "started",
        "subject",
    )

    def __init__(
        self,
        subject: Subject,
        event: str,
        *,
        argv: tuple[str, ...] | None = None,
        path: str | None = None,
        code: str | None = None,
    ) -> None:
        self.subject = subject
        self.event = event
        self.argv = argv
        self.path = path
        self.code = code
        self.bytes_in = 0
        self.bytes_out = 0
        self.exit_code: int | None = None
        self.killed = False
        self.abandoned = False
        self.error: BaseException | None = None
        self.span: Span | None = None
        self.observed = False
        self.network_denials: int | None = None
        self.denied_before = None if subject.denials is None else subject.denials()
        self.began = subject.now()
        self.began_ns = time.time_ns()
        self.started: float | None = None
        self.ended: float | None = None

    def has_started(self) -> None:
        """Note that waiting is over, and that the command runs."""
        self.started = self.subject.now()

    def has_ended(self, exit_code: int | None) -> None:
        """Note the end of the command; what its reader does after it is not its time."""
        self.ended = self.subject.now()
        self.exit_code = exit_code

    def close(self, error: BaseException | None) -> None:
        """Note the end of the operation, and the error that ended it."""
        if self.ended is None:
            self.ended = self.subject.now()
        if error is not None:
            self.error = error
        if self.subject.denials is not None and self.denied_before is not None:
            self.network_denials = self.subject.denials() - self.denied_before

    @property
    def duration_ms(self) -> int:
        """Milliseconds until its end, or until now."""
        return _ms(self.began, self.subject.now() if self.ended is None else self.ended)

    @property
    def meter(self) -> Meter:
        """What it has taken until now, as results carry it."""
        waiting, running = self._split()
        return Meter(self.duration_ms, self.subject.backend, waiting, running)

    def _split(self) -> tuple[int | None, int | None]:
        if self.started is None:
            return None, None
        waiting = _ms(self.began, self.started)
        # The two add up to the whole, which rounding each by itself would not keep.
        return waiting, max(0, self.duration_ms - waiting)

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        if self.error is None:
            if self.killed:
                return "killed"
            return "abandoned" if self.abandoned and self.exit_code is None else "ok"
        if isinstance(self.error, SandboxTimeout):
            return "timeout"
        return "error" if isinstance(self.error, Exception) else "cancelled"

    def render(self, *, capture_code: bool) -> AuditEvent:
        """Return the event, with every secret masked: the only place where one is made."""
        subject = self.subject
        mask = subject.redactor.text
        waiting, running = self._split()
        error = self.error
        cancelled = self.outcome == "cancelled"
        return AuditEvent(
            ts=datetime.fromtimestamp(self.began_ns / 1e9, UTC),
            event=self.event,
            sandbox_id=mask(subject.sandbox_id),
            backend=subject.backend,
            isolation=subject.isolation,
            tenant_id=_masked(subject.labels.get("tenant_id"), subject.redactor),
            session_id=_masked(subject.labels.get("session_id"), subject.redactor),
            code_sha256=_digest(self.code),
            argv=None if self.argv is None else tuple(mask(item) for item in self.argv),
            exit_code=self.exit_code,
            duration_ms=self.duration_ms,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            network_denials=self.network_denials,
            code=_masked(self.code, subject.redactor) if capture_code else None,
            outcome=self.outcome,
            error_type=None
            if error is None
            else "cancelled"
            if cancelled
            else type(error).__name__,
            error_code=error.code if isinstance(error, SandboxError) else None,
            error=None if error is None or cancelled else mask(_message(error)),
            waiting_ms=waiting,
            running_ms=running,
            path=_masked(self.path, subject.redactor),
            policy=subject.policy,
            routing=None if subject.routing is None else _masked_values(subject),
        )


def _ms(begin: float, end: float) -> int:
    return round((end - begin) * 1000)


def _masked(text: str | None, redactor: Redactor) -> str | None:
    return None if text is None else redactor.text(text)


def _masked_values(subject: Subject) -> dict[str, object]:
    def masked(value: object) -> object:
        if isinstance(value, str):
            return subject.redactor.text(value)
        if isinstance(value, Mapping):
            items = cast("Mapping[object, object]", value).items()
            return {str(key): masked(item) for key, item in items}
        if isinstance(value, tuple | list):
            return [masked(item) for item in cast("Sequence[object]", value)]
        return value

    return {key: masked(value) for key, value in (subject.routing or {}).items()}


def _digest(code: str | None) -> str:
    return "" if code is None else hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()


def _message(error: BaseException) -> str:
    return error.message if isinstance(error, SandboxError) else str(error)
