"""One live sandbox as the engine holds it: its driver, and the rules for its end."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import anyio

from .._observe.exceptions import redact_error
from .._observe.record import Subject
from .._observe.redaction import Redactor
from ..errors import (
    AuditSinkError,
    AuditSinkWarning,
    CapabilityNotSupported,
    ConnectError,
    OrphanedSandboxWarning,
    ProviderError,
    SandboxCorrupted,
    SandboxGone,
)
from ..models import Capability
from ..spi import Clock, Outcome, SandboxDriver, run_to_the_end
from .boundary import boundary, told_apart
from .recording import Operation, Recorder
from .settings import audit_timeout, teardown_grace

__all__ = ["LiveSandbox"]

LIFETIME_SLACK = 6.0
"""Seconds that a call without a timeout outlives the sandbox, so that the error is `SandboxGone`: as long
as a driver may take to find out why its sandbox ended."""


class LiveSandbox:
    """Owns the driver of one sandbox.

    Every call of the sandbox, its files and processes is made inside `call`, and every end of it
    goes through `end`.
    """

    def __init__(
        self,
        driver: SandboxDriver,
        *,
        subject: Subject,
        recorder: Recorder,
        env: Mapping[str, str],
        attached: bool,
        clock: Clock,
        ledger: set[str],
    ) -> None:
        self.driver = driver
        self.clock = clock
        self._ledger = ledger
        self._subject = subject
        self._recorder = recorder
        self.backend = subject.backend
        self.env = dict(env)
        self.redactor: Redactor = subject.redactor
        self.attached = attached
        self.state = "running"
        self._ending: anyio.Event | None = None
        self._streams: dict[Operation, None] = {}

    @property
    def inherited_timeout(self) -> float:
        """Seconds that a call may take when its caller named none."""
        return self.driver.remaining + LIFETIME_SLACK

    def ensure_running(self) -> None:
        """Refuse a call on a sandbox that this handle has ended."""
        if self.state != "running":
            raise SandboxGone(f"The sandbox {self.driver.id} was ended by this handle already.")

    def require(self, capability: Capability, what: str) -> None:
        """Refuse a call that needs an undeclared capability."""
        if capability not in self.driver.capabilities:
            raise CapabilityNotSupported(
                f"{what} needs {capability}, which the {self.backend!r} backend does not declare.",
                capability=capability,
            )

    def operation(
        self,
        event: str,
        *,
        argv: tuple[str, ...] | None = None,
        path: str | None = None,
        code: str | None = None,
        spans_calls: bool = False,
    ) -> Operation:
        """Prepare an operation on this sandbox; whatever the public surface does is one."""
        return self._recorder.operation(
            self._subject, event, argv=argv, path=path, code=code, spans_calls=spans_calls
        )

    def entered(self, stream: Operation) -> None:
        """Remember a stream that was entered: it owes its record, whether or not it is ever left."""
        self._streams[stream] = None

    def left(self, stream: Operation) -> None:
        """Forget a stream whose reader sees to its end."""
        self._streams.pop(stream, None)

    async def _record_abandoned_streams(self) -> None:
        # A call in flight is about to fail, and tells more in the record than that it was here.
        abandoned = [stream for stream in self._streams if not stream.calls]
        for stream in abandoned:
            self.left(stream)

        async def step() -> None:
            for stream in abandoned:
                await stream.abandon()

        if abandoned:
            await run_to_the_end(step, grace=len(abandoned) * audit_timeout())

    @asynccontextmanager
    async def call(self, what: str) -> AsyncGenerator[None, None]:
        """Make a call to the driver: only sandboxio's errors come out, and gone is told from failed."""
        self.ensure_running()
        try:
            with boundary(what, self.redactor):
                yield
        except SandboxCorrupted:
            # If that fails, the sandbox is still this handle's, and leaving it tries again.
            with suppress(ConnectError, AuditSinkError):
                await self.end()
            raise
        except ProviderError as error:
            better = await told_apart(error, self.driver.alive, self.clock)
            if better is error:
                raise
            raise better from error.__cause__

    async def end(self) -> None:
        """End the sandbox, to the end whatever cancels the caller; may be repeated if it fails.

        Raises:
            ConnectError: The backend refused, or did not confirm in time.
        """
        while self._ending is not None:
            await self._ending.wait()  # another task ends it, within the same grace
        if self.state != "running":
            return
        self._ending = anyio.Event()
        try:
            async with self.operation("kill"):
                try:
                    await self._end()
                finally:
                    if self.state != "running":
                        await self._record_abandoned_streams()
        finally:
            self._ending.set()
            self._ending = None

    async def _end(self) -> None:
        grace = teardown_grace()
        outcome = Outcome()
        try:
            await self._to_the_end(self.driver.terminate, grace, outcome)
        finally:
            # Whoever cancels the caller meanwhile: what was ended has ended, and what was not is told.
            if _is_over(outcome):
                self.state = "killed"
                self._ledger.discard(self.driver.id)
            elif outcome.gave_up:
                self._warn_of_an_orphan(grace)
        if not _is_over(outcome):
            raise self._not_ended(outcome, grace)

    async def _to_the_end(
        self,
        step: Callable[[], Awaitable[None]],
        grace: float,
        outcome: Outcome | None = None,
    ) -> None:
        await run_to_the_end(step, grace=grace, outcome=outcome, clock=self.clock)

    @property
    def _name(self) -> str:
        return f"The sandbox {self.driver.id} of the {self.backend!r} backend"

    def _warn_of_an_orphan(self, grace: float) -> None:
        labels = f" Labels: {dict(self._subject.labels)}." if self._subject.labels else ""
        late = f"was not confirmed to be gone within {grace:g} s."
        warnings.warn(
            self.redactor.text(f"{self._name} {late}{labels} It may still run."),
            OrphanedSandboxWarning,
            stacklevel=4,
        )

    def _not_ended(self, outcome: Outcome, grace: float) -> ConnectError:
        hint = f"sandboxio reap --backend {self.backend} --kill"
        if outcome.error is None:
            late = f"{self._name} was not confirmed to be gone within {grace:g} s."
            return ConnectError(late, hint=hint, retryable=True)
        redact_error(outcome.error, self.redactor)
        refused = ConnectError(
            self.redactor.text(f"{self._name} could not be ended: {outcome.error}"),
            hint=hint,
            retryable=True,
        )
        refused.__cause__ = outcome.error
        return refused

    async def leave(self, *, failing: bool) -> None:
        """Leave the sandbox at the end of its block: end it, or merely let go of an attached one.

        With ``failing``, an error of the teardown becomes a warning: the block's own error is
        the one to raise.
        """
        if self.attached:
            if self.state == "running":
                self.state = "detached"
                try:
                    await self._to_the_end(self.driver.detach, teardown_grace())
                finally:
                    await self._record_abandoned_streams()
            return
        try:
            await self.end()
        except (ConnectError, AuditSinkError) as error:
            if not failing:
                raise
            orphaned = isinstance(error, ConnectError)
            kind = OrphanedSandboxWarning if orphaned else AuditSinkWarning
            warnings.warn(str(error), kind, stacklevel=3)


def _is_over(outcome: Outcome) -> bool:
    return outcome.finished and (outcome.error is None or isinstance(outcome.error, SandboxGone))
