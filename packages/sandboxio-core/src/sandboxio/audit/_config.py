"""Where events go, and what happens when they cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, cast

from ..errors import ConfigurationError
from ._event import AuditEvent

if TYPE_CHECKING:
    import logging

__all__ = ["AuditConfig", "AuditSink", "LoggingSink", "NoopSink"]


class AuditSink(Protocol):
    """Takes events. A sink that does network I/O belongs behind a `QueueSink`."""

    async def emit(self, event: AuditEvent) -> None:
        """Take one event, and return promptly: the operation waits for it.

        It is given ``SBX_AUDIT_TIMEOUT`` seconds (default 5). What is raised, or takes longer, is
        a failure, to which ``AuditConfig.on_sink_failure`` answers.
        """
        ...


class NoopSink:
    """Records nothing; the default."""

    async def emit(self, event: AuditEvent) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class AuditConfig:
    """How one backend object records.

    Attributes:
        sinks: Each gets every event.
        on_sink_failure: ``"warn"`` emits `AuditSinkWarning` and the operation goes on; ``"fail"``
            raises `AuditSinkError`, so that an operation which is not recorded has failed.
        capture_code: Whether events and spans carry the (redacted) source text of ``run_code``.

    Example:
        >>> AuditConfig(sinks=(NoopSink(),), on_sink_failure="fail").capture_code
        False
    """

    sinks: tuple[AuditSink, ...] = (NoopSink(),)
    on_sink_failure: Literal["warn", "fail"] = "warn"
    capture_code: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "sinks", _checked_sinks(self.sinks))
        if self.on_sink_failure not in ("warn", "fail"):
            raise ConfigurationError(
                f"AuditConfig.on_sink_failure cannot be {self.on_sink_failure!r}.",
                hint="Use on_sink_failure='warn' or on_sink_failure='fail'.",
            )


def _checked_sinks(sinks: object) -> tuple[object, ...]:
    if not isinstance(sinks, tuple | list):
        raise ConfigurationError("AuditConfig.sinks must be a tuple of sinks.")
    given = cast("tuple[object, ...]", sinks)
    for sink in given:
        if not callable(getattr(sink, "emit", None)):
            raise ConfigurationError(
                f"A {type(sink).__name__} is no audit sink: it has no emit().",
                hint="A sink has: async def emit(self, event: AuditEvent) -> None",
            )
    return tuple(given)


class LoggingSink:
    """One JSON line per event on a logger of the caller's; configures no handler.

    The event is also in the log record, as ``record.audit``, a dictionary.
    """

    def __init__(self, logger: logging.Logger, level: int = 20) -> None:
        self._logger = logger
        self._level = level

    def __repr__(self) -> str:
        return f"<LoggingSink {self._logger.name[:100]} level={self._level}>"

    async def emit(self, event: AuditEvent) -> None:
        """Log one event."""
        if self._logger.isEnabledFor(self._level):
            self._logger.log(self._level, "%s", event.as_line(), extra={"audit": event.as_dict()})
