"""Secrets, and the host's own credentials, are in nothing that this backend lets out."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Awaitable, Callable, Generator
from typing import Any, cast

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sandboxio import SandboxError
from sandboxio.audit import AuditConfig, AuditEvent, LoggingSink
from sandboxio.protocols import AsyncSandbox
from sandboxio_e2b import E2BBackend
from sandboxio_testing.e2b import Fault, LocalE2B

SECRETS = {
    "PLAIN": "canary-plain-7f3a9c",
    "LONGER": "canary-plain-7f3a9c-and-more",
    "REGEX": r"can(ary.*+?[x]$|^\d",
    "QUOTED": 'can\'ary "quoted" \\ 100%',
    "LINES": "-----BEGIN CANARY-----\ncanary-line-one-abc\ncanary-line-two-def\n-----END-----",
}
ENVIRONMENT = {"CANARY_API_TOKEN": "canary-environment-55e1"}
OF_ONE_CALL = {"CALL_PASSWORD": "canary-of-one-call-91b2"}
CANARIES = [
    *(value for value in SECRETS.values() if "\n" not in value),
    *(line for line in SECRETS["LINES"].splitlines() if "canary" in line),
    *ENVIRONMENT.values(),
    *OF_ONE_CALL.values(),
]

BOUND = 110.0
EXECUTE = "POST /execute"


class Watch:
    """Collects all that operations let out, apart from what they return."""

    def __init__(self, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture) -> None:
        self.spans = spans
        self.texts: list[str] = []
        self._caplog = caplog

    async def emit(self, event: AuditEvent) -> None:
        """Take an audit event in."""
        self.texts += [event.as_line(), json.dumps(event.as_dict()), repr(event)]

    def see(self, error: BaseException) -> None:
        """Take in all that is ever printed of an error, and what it holds."""
        link: BaseException | None = error
        while link is not None:
            self.texts += [str(link), repr(link), repr(link.args), repr(vars(link))]
            link = link.__cause__ or link.__context__
        self.texts += traceback.format_exception(error)

    async def call(self, operation: Callable[[], Awaitable[object]]) -> None:
        """Make a call; what it raises is seen."""
        try:
            await operation()
        except SandboxError as error:
            self.see(error)

    def shown(self, secrets: list[str]) -> list[str]:
        """Return those that can be seen, in any form."""
        spans = [span.to_json() for span in self.spans.get_finished_spans()]
        logs = [
            f"{record.getMessage()} {json.dumps(record.__dict__, default=repr)}"
            for record in self._caplog.records
        ]
        everything = "\n".join([*self.texts, *spans, *logs])
        assert "***" in everything
        assert len(spans) >= 10
        assert logs
        return [
            form
            for secret in secrets
            for form in {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]}
            if form in everything
        ]


@pytest.fixture
def watch(caplog: pytest.LogCaptureFixture) -> Generator[Watch, None, None]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace._TRACER_PROVIDER_SET_ONCE._done = False
    trace._TRACER_PROVIDER = None
    trace.set_tracer_provider(provider)
    # The SDK's loggers too, and those of what it is made of.
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "sandboxio"):
        yield Watch(exporter, caplog)
    trace._TRACER_PROVIDER_SET_ONCE._done = False
    trace._TRACER_PROVIDER = None


@pytest.fixture
def recording(watch: Watch) -> E2BBackend:
    """A backend that records to all there is, code included."""
    sinks = (watch, LoggingSink(logging.getLogger("canary.audit")))
    return E2BBackend(audit=AuditConfig(sinks=sinks, capture_code=True))


async def use(sandbox: AsyncSandbox, value: str, watch: Watch) -> None:
    """Put a secret wherever there is room for one."""
    name = value.replace("/", "-").replace("\n", " ")[:100]

    async def stream() -> None:
        half = len(value) // 2
        async with sandbox.stream(["sh", "-c", "cat; exit 3", value]) as process:
            await process.send(value[:half])
            await process.send(value[half:])
            await process.send_eof()
            watch.texts.append(repr(process))
            (await process.wait()).raise_for_status()

    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: sandbox.run(["echo", value, f"--password={value}"], env=OF_ONE_CALL),
        lambda: sandbox.run(["true"], cwd=f"/nowhere/{name}"),
        lambda: sandbox.run(["sh", "-c", "sleep 99", value], stdin=value, timeout=0.2),
        lambda: sandbox.run_code(f"raise ValueError({value!r})"),
        lambda: sandbox.run_code(f"raise ValueError({value!r})", context_id="a", env=OF_ONE_CALL),
        lambda: sandbox.run_code("1", language=value, context_id="x"),
        lambda: sandbox.files.write(f"file {name}", value),
        lambda: sandbox.files.read(f"no {name}"),
        lambda: sandbox.files.upload(f"/no such folder/{name}", "x"),
        stream,
    ]
    for operation in calls:
        await watch.call(operation)


async def test_a_secret_is_seen_nowhere(recording: E2BBackend, watch: Watch) -> None:
    with anyio.fail_after(BOUND):
        async with await recording.create(timeout=300, secrets=SECRETS, env=ENVIRONMENT) as sandbox:
            for value in (SECRETS["LONGER"], SECRETS["QUOTED"]):
                await use(sandbox, value, watch)
            await sandbox.run(["echo", *SECRETS.values(), *ENVIRONMENT.values()])
            async with await recording.connect(sandbox.id) as again:
                await again.run(["echo", *SECRETS.values()])
                watch.texts += [repr(again), repr(again.native)]
            things = (sandbox, sandbox.files, sandbox.policy, sandbox.native, recording)
            watch.texts += [repr(thing) for thing in things]
    assert watch.shown(CANARIES) == []


async def test_what_e2b_says_shows_no_secret(
    recording: E2BBackend, server: LocalE2B, watch: Watch
) -> None:
    """However long its answer is, and wherever in it the secret stands."""
    with anyio.fail_after(BOUND):
        async with await recording.create(timeout=300, secrets=SECRETS) as sandbox:
            await sandbox.run_code("1", context_id="a")
            for length in (0, 485, 5000):
                for secret in (SECRETS["LONGER"], SECRETS["LINES"]):
                    text = f"{'.' * length}: cannot run {secret}"
                    server.add(Fault(route=EXECUTE, status=500, body=text.encode()))
                    server.add(Fault(route="POST /contexts", status=500, body=text.encode()))
                    await watch.call(lambda: sandbox.run_code("1", context_id="a"))
                    server.faults.clear()
    assert watch.shown([*CANARIES, "canary-", "CANARY"]) == []


async def test_credentials_of_the_host_are_seen_nowhere(
    recording: E2BBackend, server: LocalE2B, watch: Watch
) -> None:
    """Not even where E2B quotes them: in a create, a look, a list, a kill, in commands and code."""
    key = server.api_key
    with anyio.fail_after(BOUND):
        async with await recording.create(timeout=300) as sandbox:
            tokens = [token for token in cast("Any", sandbox.native).tokens if token]
            assert key in tokens
            assert len(tokens) >= 2
            quoted = " and ".join(tokens)
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "POST /v2/sandboxes": lambda: recording.create(timeout=20),
                "GET /sandboxes/*": lambda: recording.connect(sandbox.id),
                "POST /v2/sandboxes/*/connect": lambda: recording.connect(sandbox.id),
                "GET /v2/sandboxes": recording.list_managed,
                "DELETE /sandboxes/*": lambda: recording.kill_managed(sandbox.id),
                "POST /contexts": lambda: sandbox.run_code("1", context_id="a"),
                "POST /process.Process/SendInput": lambda: sandbox.run(["true"]),
            }
            for status in (400, 401, 429, 500, 524):
                for body in (
                    json.dumps({"code": status, "message": f"Invalid key {quoted}"}),
                    json.dumps({"code": "internal", "message": f"Bad token {quoted}"}),
                    f"<html>{quoted}</html>",
                    f'{{"detail": "{quoted}"',
                ):
                    for route, operation in calls.items():
                        server.add(Fault(route=route, status=status, body=body.encode()))
                        await watch.call(operation)
                        server.faults.clear()
            await watch.call(lambda: recording.kill_managed(sandbox.id))
    assert watch.shown(tokens) == []
