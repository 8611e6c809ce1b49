"""Audit records: one for each operation, true, and without a secret."""

from __future__ import annotations

import hashlib
import warnings
from functools import partial
from pathlib import Path

import pytest

from sandboxio.audit import AuditConfig, AuditEvent
from sandboxio.errors import AuditSinkError, AuditSinkWarning
from sandboxio.models import Capability
from sandboxio.protocols import AsyncSandbox

from ._attempts import attempt, interrupt
from ._base import ContractBase, Maker, Names
from ._bounds import SHORT
from ._clause_mark import clause, needs
from ._operations import each_operation
from ._secreting import canary

__all__ = ["AuditingContract", "RecordingSink"]

EVENTS = {
    "run": "exec",
    "run_code": "run_code",
    "stream": "stream",
    "files.read": "file_read",
    "files.write": "file_write",
    "files.upload": "file_upload",
    "files.download": "file_download",
    "files.ls": "file_list",
    "files.mkdir": "file_mkdir",
    "files.remove": "file_remove",
    "files.stat": "file_stat",
}
"""The event that each operation makes."""


UNREACHABLE = "192.0.2.7"
"""An address that is set aside for documentation: nobody has it."""


class RecordingSink:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    async def emit(self, event: AuditEvent) -> None:
        """Keep one event."""
        self.events.append(event)

    def take(self) -> list[AuditEvent]:
        """Return what came since the last time."""
        taken, self.events = self.events, []
        return taken


class FailingSink:
    """Takes nothing."""

    async def emit(self, event: AuditEvent) -> None:
        """Fail."""
        raise ConnectionError("the sink is down")


class AuditingContract(ContractBase):
    """What `AuditConfig` is promised."""

    @pytest.fixture
    def sink(self) -> RecordingSink:
        """Where the records of `audited` go."""
        return RecordingSink()

    @pytest.fixture
    async def audited_sandbox(self, make: Maker, sink: RecordingSink) -> AsyncSandbox:
        """A sandbox of a backend that records; its creation is taken out of the records."""
        backend = self.new_audited_backend(AuditConfig(sinks=(sink,)))
        labels = {"tenant_id": "the-tenant", "session_id": "the-session"}
        sandbox = await make(backend=backend, metadata=labels)
        sink.take()
        return sandbox

    @clause("audit.each-operation")
    async def test_each_operation_makes_one_record(
        self, audited_sandbox: AsyncSandbox, sink: RecordingSink, name: Names, tmp_path: Path
    ) -> None:
        """If this fails, an operation takes another way than the one that is recorded.

        Operations that fail, here for want of a file or of a capability, are operations as well.
        """
        sandbox = audited_sandbox
        for what, operation in each_operation(sandbox, self.probes, tmp_path, name("file")):
            await attempt(operation())
            events = sink.take()
            if what == "stream" and Capability.STREAMING not in sandbox.capabilities:
                continue  # it is refused before there is anything to record
            assert [event.event for event in events] == [EVENTS[what]], f"{what}: {events}"
            seen = (events[0].sandbox_id, events[0].backend, events[0].isolation)
            assert seen == (sandbox.id, sandbox.backend, sandbox.isolation), what
            assert events[0].duration_ms >= 0

    @clause("audit.lifecycle")
    async def test_create_connect_and_kill_are_recorded(
        self, make: Maker, sink: RecordingSink
    ) -> None:
        """If this fails, records begin when a sandbox is used, and end before it does."""
        backend = self.new_audited_backend(AuditConfig(sinks=(sink,)))
        sandbox = await make(backend=backend)
        connected = make.keep(await backend.connect(sandbox.id))
        await connected.kill()
        events = sink.take()
        assert [event.event for event in events] == ["create", "connect", "kill"]
        assert [event.sandbox_id for event in events] == [sandbox.id] * 3
        assert [event.outcome for event in events] == ["ok"] * 3

    @clause("audit.failures")
    async def test_failures_are_recorded(
        self, audited_sandbox: AsyncSandbox, sink: RecordingSink, name: Names
    ) -> None:
        """If this fails, only what succeeds is recorded."""
        sandbox = audited_sandbox
        await attempt(sandbox.run(self.probes.exit(0), cwd=name("missing")))
        await attempt(sandbox.run(self.probes.sleep(300), timeout=SHORT))
        await interrupt(partial(sandbox.run, self.probes.sleep(300)), at=1)
        seen = [(item.outcome, item.error_code, item.event) for item in sink.take()]
        assert seen == [
            ("error", "SBX_E1701", "exec"),
            ("timeout", "SBX_E1302", "exec"),
            ("cancelled", None, "exec"),
        ]

    @clause("audit.failures")
    async def test_failed_create_is_recorded(self, sink: RecordingSink) -> None:
        """If this fails, a create that comes to nothing leaves no trace."""
        backend = self.new_audited_backend(AuditConfig(sinks=(sink,)))
        await attempt(backend.create(template=self.template, timeout=1e-6))
        assert [(item.event, item.error_code) for item in sink.take()] == [("create", "SBX_E1203")]

    @clause("audit.command")
    async def test_record_of_a_command_tells_what_it_was(
        self, audited_sandbox: AsyncSandbox, sink: RecordingSink
    ) -> None:
        """If this fails, a record cannot answer what was run and what came of it."""
        command = self.probes.say(b"12345", b"123", 3)
        await audited_sandbox.run(command)
        (event,) = sink.take()
        assert event.argv == tuple(command)
        assert (event.exit_code, event.bytes_out, event.outcome) == (3, 8, "ok")

    @needs(Capability.STREAMING)
    @clause("audit.stream")
    async def test_record_of_a_stream_tells_what_it_was(
        self, audited_sandbox: AsyncSandbox, sink: RecordingSink
    ) -> None:
        """If this fails, a stream is recorded when it begins, or is not counted."""
        command = self.probes.say(b"12345", b"123", 3)
        async with audited_sandbox.stream(command) as process:
            async for _ in process:
                pass
            await process.wait()
        (event,) = sink.take()
        assert event.argv == tuple(command)
        assert (event.exit_code, event.bytes_out, event.outcome) == (3, 8, "ok")

    @needs(Capability.STREAMING)
    @clause("audit.abandoned")
    async def test_stream_that_nobody_leaves_is_recorded(
        self, audited_sandbox: AsyncSandbox, sink: RecordingSink
    ) -> None:
        """If this fails, a stream is only recorded by who leaves its block."""
        command = self.probes.say_around(b"12345", "sandboxio-no-such-file", b"")
        process = audited_sandbox.stream(command)
        await process.__aenter__()
        seen = b""
        while len(seen) < 5:
            seen += (await anext(aiter(process))).data
        await audited_sandbox.kill()
        await process.__aexit__(None, None, None)
        events = sink.take()
        assert sorted(event.event for event in events) == ["kill", "stream"]
        (stream,) = [event for event in events if event.event == "stream"]
        assert (stream.argv, stream.bytes_out) == (tuple(command), 5)
        assert (stream.outcome, stream.exit_code) == ("abandoned", None)

    @clause("audit.denials")
    async def test_record_counts_blocked_attempts_or_does_not_know(
        self, audited_sandbox: AsyncSandbox, sink: RecordingSink
    ) -> None:
        """If this fails, "not counted" is told as 0, or nothing is counted where it is said to be."""
        await audited_sandbox.run(self.probes.exit(0))
        command = self.probes.reach("connect", UNREACHABLE, 80, "token")
        assert (await audited_sandbox.run(command)).exit_code == 9
        quiet, denied = [event.network_denials for event in sink.take()]
        assert (quiet, denied) == (None, None) or (quiet == 0 and (denied or 0) > 0)

    @clause("audit.not-mangled")
    async def test_short_value_changes_nothing_else(self, make: Maker, sink: RecordingSink) -> None:
        """If this fails, whatever stands in the environment is masked everywhere."""
        backend = self.new_audited_backend(AuditConfig(sinks=(sink,)))
        sandbox = await make(backend=backend, env={"AUTHOR": "in", "MODE": "test"})
        sink.take()
        command = ["printf", "pytest in mint"]
        await sandbox.run(command, env={"SBX_PASSWORD": "x"})
        (event,) = sink.take()
        assert event.argv == tuple(command)

    @needs(Capability.RUN_CODE)
    @clause("audit.code")
    async def test_record_of_code_has_its_hash(
        self, audited_sandbox: AsyncSandbox, sink: RecordingSink
    ) -> None:
        """If this fails, code stands in records although nobody asked for it."""
        code = "print('of the record')"
        await audited_sandbox.run_code(code)
        (event,) = sink.take()
        assert event.code_sha256 == hashlib.sha256(code.encode()).hexdigest()
        assert event.code is None
        assert "of the record" not in event.as_line()

    @needs(Capability.RUN_CODE)
    @clause("audit.code")
    async def test_record_of_code_has_the_code_if_asked(
        self, make: Maker, sink: RecordingSink
    ) -> None:
        """If this fails, `capture_code=True` is ignored."""
        config = AuditConfig(sinks=(sink,), capture_code=True)
        sandbox = await make(backend=self.new_audited_backend(config))
        sink.take()
        await sandbox.run_code("print('of the record')")
        (event,) = sink.take()
        assert event.code == "print('of the record')"

    @clause("audit.tenant")
    async def test_record_tells_tenant_and_session(
        self, audited_sandbox: AsyncSandbox, sink: RecordingSink
    ) -> None:
        """If this fails, records cannot be attributed."""
        await audited_sandbox.run(self.probes.exit(0))
        (event,) = sink.take()
        assert (event.tenant_id, event.session_id) == ("the-tenant", "the-session")

    @clause("audit.no-secret")
    async def test_no_record_shows_a_secret(
        self, make: Maker, sink: RecordingSink, tmp_path: Path
    ) -> None:
        """If this fails, a field of the record is not masked, or masked piece by piece."""
        secret, of_the_call = canary(), canary()
        config = AuditConfig(sinks=(sink,), capture_code=True)
        sandbox = await make(
            backend=self.new_audited_backend(config),
            secrets={"SBX_SECRET": secret},
            metadata={"tenant_id": secret},
        )
        path = f"missing-{secret}"
        await attempt(sandbox.run([*self.probes.say(secret.encode()), f"x{secret}y"]))
        await attempt(sandbox.run(self.probes.exit(0), cwd=path))
        await attempt(sandbox.run(self.probes.exit(0), env={"SBX_OTHER": secret}))
        call = {"SBX_API_KEY": of_the_call}
        await attempt(sandbox.run(["echo", of_the_call], env=call))
        await attempt(sandbox.run_code(f"raise SystemExit({secret!r})"))
        for _, operation in each_operation(sandbox, self.probes, tmp_path, path):
            await attempt(operation())
        await sandbox.kill()
        lines = [event.as_line() for event in sink.take()]
        assert len(lines) >= 8, lines
        for value in (secret, of_the_call):
            assert not [line for line in lines if value in line]

    @clause("audit.sink-fails")
    async def test_failing_sink_warns_or_fails_the_operation(self, make: Maker) -> None:
        """If this fails, a lost record is not noticed, or not what was configured happens."""
        lenient = AuditConfig(sinks=(FailingSink(),), on_sink_failure="warn")
        strict = AuditConfig(sinks=(FailingSink(),), on_sink_failure="fail")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sandbox = await make(backend=self.new_audited_backend(lenient))
            result = await sandbox.run(self.probes.exit(3))
            await sandbox.kill()
            error = await attempt(
                self.new_audited_backend(strict).create(template=self.template, timeout=30)
            )
        assert result.exit_code == 3
        assert AuditSinkWarning in [item.category for item in caught]
        assert isinstance(error, AuditSinkError), repr(error)
