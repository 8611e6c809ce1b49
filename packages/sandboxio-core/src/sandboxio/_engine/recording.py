"""Every operation opens one record, here, and closes it here."""

from __future__ import annotations

import logging
import time
import warnings
from types import TracebackType
from typing import TYPE_CHECKING

import anyio

from .. import otel
from .._observe.exceptions import redact_error
from .._observe.logger import library_logger
from .._observe.record import Record, Subject
from ..audit import AuditConfig, AuditEvent, AuditSink, NoopSink
from ..errors import AuditSinkError, AuditSinkWarning, ConfigurationError
from ..spi import run_to_the_end
from .settings import audit_timeout

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider

__all__ = ["Operation", "Recorder"]


class Recorder:
    """How the operations of one backend object are recorded."""

    def __init__(self, audit: AuditConfig | None = None) -> None:
        self._config = _checked(audit)
        self._sinks = tuple(sink for sink in self._config.sinks if not isinstance(sink, NoopSink))
        self._traced: tuple[TracerProvider, Tracer] | None = None

    def operation(
        self,
        subject: Subject,
        event: str,
        *,
        argv: tuple[str, ...] | None = None,
        path: str | None = None,
        code: str | None = None,
        spans_calls: bool = False,
    ) -> Operation:
        """Prepare an operation; its record is open within ``async with``.

        With ``spans_calls`` it lasts over several calls of its user, perhaps from several tasks, so
        that its span is never the current one of any of them.
        """
        return Operation(self, subject, event, argv, path, code, spans_calls)

    def begin(self, record: Record) -> None:
        """Open the span, if there is a provider, and find out whether anybody listens."""
        provider = otel.provider()
        if provider is not None:
            if self._traced is None or self._traced[0] is not provider:
                self._traced = (provider, otel.tracer_of(provider))
            record.span = otel.start_span(self._traced[1], record.event)
        record.observed = (
            bool(self._sinks)
            or record.span is not None
            or library_logger().isEnabledFor(logging.DEBUG)
        )

    async def publish(self, record: Record, *, failing: bool) -> None:
        """Render the record and tell those who listen.

        With ``failing``, a sink that fails is warned of in any case: the operation's own error is
        the one to raise.

        Raises:
            AuditSinkError: A sink failed, and the operation shall fail with it.
        """
        event = record.render(capture_code=self._config.capture_code)
        ended_ns = time.time_ns()
        fields = event.as_dict()
        problems = _Problems(self._sinks)
        try:
            library_logger().debug("%r", event, extra={"sandboxio": fields})
            if self._sinks:
                await problems.collect(event)
        finally:
            unrecorded = problems.describe(record.subject)
            fails = bool(unrecorded) and self._config.on_sink_failure == "fail" and not failing
            if record.span is not None:
                if fails:
                    fields.update(error_type=AuditSinkError.__name__, error=unrecorded)
                otel.end_span(record.span, fields, ended_ns=ended_ns)
            if unrecorded and not fails:
                warnings.warn(unrecorded, AuditSinkWarning, stacklevel=2)
        if fails:
            raise AuditSinkError(unrecorded) from problems.first


def _checked(audit: object) -> AuditConfig:
    if audit is None:
        return AuditConfig()
    if not isinstance(audit, AuditConfig):
        raise ConfigurationError(f"audit must be an AuditConfig, not {type(audit).__name__}.")
    return audit


class _Problems:
    """Gives an event to every sink, whoever cancels the caller, and notes what went wrong."""

    def __init__(self, sinks: tuple[AuditSink, ...]) -> None:
        self._sinks = sinks
        self._given = False
        self._taken: set[int] = set()
        self._errors: dict[int, Exception] = {}
        self._bound = 0.0

    async def collect(self, event: AuditEvent) -> None:
        self._bound = audit_timeout()
        self._given = True

        async def one(index: int) -> None:
            try:
                await self._sinks[index].emit(event)
            except Exception as error:  # noqa: BLE001 - a foreign sink's; it is warned of or raised
                self._errors[index] = error
            else:
                self._taken.add(index)

        async def everyone() -> None:
            async with anyio.create_task_group() as group:
                for index in range(len(self._sinks)):
                    group.start_soon(one, index)

        alone = len(self._sinks) == 1
        await run_to_the_end((lambda: one(0)) if alone else everyone, grace=self._bound)

    @property
    def first(self) -> Exception | None:
        return next(iter(self._errors.values()), None)

    def describe(self, subject: Subject) -> str:
        """Return one sentence on what was not recorded and why, or nothing."""
        if not self._given or len(self._taken) == len(self._sinks):
            return ""
        reasons: list[str] = []
        for index, sink in enumerate(self._sinks):
            if index in self._errors:
                error = self._errors[index]
                text = subject.redactor.text(f"{type(error).__name__}: {error}")[:500]
                reasons.append(f"{type(sink).__name__} failed ({text})")
            elif index not in self._taken:
                reasons.append(f"{type(sink).__name__} took longer than {self._bound:g} s")
        return f"An operation was not recorded: {'; '.join(reasons)}."


class Operation:
    """One operation with its one record; ``async with`` gives the record.

    Attributes:
        calls: How many of the calls that it spans are being made now.
    """

    __slots__ = ("_closed", "_current", "_parts", "_record", "_recorder", "_spans_calls", "calls")

    def __init__(
        self,
        recorder: Recorder,
        subject: Subject,
        event: str,
        argv: tuple[str, ...] | None,
        path: str | None,
        code: str | None,
        spans_calls: bool,
    ) -> None:
        self._recorder = recorder
        self._parts = (subject, event, argv, path, code)
        self._record: Record | None = None
        self._spans_calls = spans_calls
        self._current: object = None
        self._closed = False
        self.calls = 0

    async def __aenter__(self) -> Record:
        subject, event, argv, path, code = self._parts
        record = self._record = Record(subject, event, argv=argv, path=path, code=code)
        self._recorder.begin(record)
        if record.span is not None and not self._spans_calls:
            self._current = otel.make_current(record.span)
        return record

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close(exc, failing=exc is not None)

    async def close(self, error: BaseException | None, *, failing: bool) -> None:
        """Close the record, with the error that ended the operation; a second end changes nothing.

        ``failing`` says whether the caller is about to get an error already, of whatever kind.
        """
        record = self._record
        assert record is not None
        if self._closed:
            return
        self._closed = True
        record.close(error)
        if self._current is not None:
            otel.make_past(self._current)
        if record.error is not None:
            redact_error(record.error, record.subject.redactor)
        if record.observed:
            await self._recorder.publish(record, failing=failing)

    async def abandon(self) -> None:
        """Close the record of what its user never ended: the sandbox has ended, and it with it."""
        assert self._record is not None
        self._record.abandoned = True
        await self.close(None, failing=True)
