"""Secrets that are used everywhere in a local sandbox are shown nowhere."""

from __future__ import annotations

import json
import logging
import os
import traceback
import warnings
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from leftovers import children
from sandboxio import PIPE, AsyncSandbox, SandboxError, create_sync, register
from sandboxio._cli import main
from sandboxio.audit import AuditConfig, AuditEvent, FileSink, LoggingSink
from sandboxio_local import LocalBackend

SECRETS = {
    "PLAIN": "canary-plain-7f3a9c",
    "LONGER": "canary-plain-7f3a9c-and-more",
    "REGEX": r"can(ary.*+?[x]$|^\d",
    "QUOTED": 'can\'ary "quoted" \\ 100%',
    "LINES": "-----BEGIN CANARY-----\ncanary-line-one-abc\ncanary-line-two-def\n-----END-----",
    "UNICODE": "canari-é-✓-ключ",
}
ENVIRONMENT = {"CANARY_API_TOKEN": "canary-environment-55e1"}
OF_ONE_CALL = {"CALL_PASSWORD": "canary-of-one-call-91b2"}
FORBIDDEN = [
    *(value for value in SECRETS.values() if "\n" not in value),
    *(line for line in SECRETS["LINES"].splitlines() if "canary" in line),
    *ENVIRONMENT.values(),
    *OF_ONE_CALL.values(),
]


class Watch:
    """Collects all that operations let out, apart from what they return."""

    def __init__(self, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture) -> None:
        self.spans = spans
        self.caplog = caplog
        self.texts: list[str] = []

    async def emit(self, event: AuditEvent) -> None:
        """Take an audit event in."""
        self.texts += [event.as_line(), json.dumps(event.as_dict(), ensure_ascii=False)]
        self.texts.append(repr(event))

    def see(self, error: BaseException) -> None:
        """Take in all that is ever printed of an error, and what it holds."""
        link: BaseException | None = error
        while link is not None:
            self.texts += [str(link), repr(link), repr(link.args), *getattr(link, "__notes__", ())]
            link = link.__cause__ or link.__context__
        if isinstance(error, SandboxError):
            self.texts += [error.message, error.hint, str(getattr(error, "path", ""))]
        self.texts += traceback.format_exception(error)

    def leaks(self) -> list[str]:
        """Return what of the secrets can be seen, in any of the forms that quoting gives it."""
        records = [
            f"{record.getMessage()} {json.dumps(vars(record), default=repr)}"
            for record in self.caplog.records
        ]
        spans = [span.to_json() for span in self.spans.get_finished_spans()]
        seen = "\n".join([*self.texts, *records, *spans])
        assert "***" in seen
        return [
            form
            for secret in FORBIDDEN
            for form in {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]}
            if form in seen
        ]


@pytest.fixture
def watch(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Generator[Watch, None, None]:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "sandboxio")
    yield Watch(spans, caplog)
    provider.shutdown()


@pytest.fixture
def backend(watch: Watch, tmp_path: Path) -> LocalBackend:
    sinks = (watch, LoggingSink(logging.getLogger("canary.audit")), FileSink(tmp_path / "audit"))
    return LocalBackend(audit=AuditConfig(sinks=sinks, capture_code=True))


def uses_of(sandbox: AsyncSandbox, value: str, watch: Watch) -> list[Callable[[], Awaitable[Any]]]:
    """Return calls with a secret in each of their arguments, most of which fail."""
    name = value.replace("/", "-").replace("\n", " ")[:100]
    half = len(value) // 2

    async def stream() -> None:
        async with sandbox.stream(["sh", "-c", "cat; echo $0", value], stdin=PIPE) as process:
            await process.send(value[:half])
            await process.send(value[half:])
            await process.send_eof()
            watch.texts += [repr(process), repr(await anext(aiter(process)))]
            watch.texts.append(repr(await process.wait()))

    async def stream_in_a_missing_place() -> None:
        async with sandbox.stream(["true"], cwd=f"/missing/{name}"):
            pass

    async def cancelled() -> None:
        with anyio.move_on_after(0.2):
            await sandbox.run(["sleep", "99", value])

    async def status() -> None:
        (await sandbox.run(["sh", "-c", "echo $0 >&2; exit 1", value])).raise_for_status()

    return [
        lambda: sandbox.run(["echo", value, f"--password={value}", f"x{value}y"]),
        lambda: sandbox.run(["sh", "-c", "echo $CALL_PASSWORD"], env=OF_ONE_CALL),
        lambda: sandbox.run(["echo", *OF_ONE_CALL.values()]),
        lambda: sandbox.run(["cat"], stdin=value),
        lambda: sandbox.run(["no-such-command", value]),
        lambda: sandbox.run([value]),
        lambda: sandbox.run(["true"], cwd=f"/missing/{name}"),
        lambda: sandbox.run(["sh", "-c", "echo $0; sleep 99", value], timeout=0.3),
        lambda: sandbox.run_code(f"raise SystemExit({value!r})"),
        lambda: sandbox.files.write(f"file {name}", value),
        lambda: sandbox.files.read(f"file {name}"),
        lambda: sandbox.files.ls(f"no {name}"),
        lambda: sandbox.files.write(f"no {name}/{name}", value),
        lambda: sandbox.files.stat(f"no {name}"),
        lambda: sandbox.files.mkdir(f"no {name}/{name}"),
        lambda: sandbox.files.upload(f"/no such folder/{name}", "x"),
        lambda: sandbox.files.download(f"no {name}", "x"),
        lambda: sandbox.files.remove(f"file {name}"),
        stream,
        stream_in_a_missing_place,
        cancelled,
        status,
    ]


@pytest.mark.parametrize("name", [*SECRETS, *ENVIRONMENT])
async def test_no_surface_shows_a_secret(
    backend: LocalBackend, watch: Watch, tmp_path: Path, name: str
) -> None:
    value = {**SECRETS, **ENVIRONMENT}[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with await backend.create(
            timeout=100, secrets=SECRETS, env=ENVIRONMENT, metadata={"tenant_id": value}
        ) as sandbox:
            for use in uses_of(sandbox, value, watch):
                try:
                    result = await use()
                except SandboxError as error:
                    watch.see(error)
                else:
                    watch.texts.append("" if isinstance(result, list | bytes) else repr(result))
            async with await backend.connect(sandbox.id) as connected:
                with pytest.raises(SandboxError) as refused:
                    await connected.files.read(f"no {value.splitlines()[0]}/{value[:60]}")
                watch.see(refused.value)
            await sandbox.stream(["sleep", "99", value]).__aenter__()  # nobody leaves it
            things = (backend, sandbox, sandbox.files, sandbox.policy, sandbox.native)
            watch.texts += [repr(thing) for thing in things]
    watch.texts += [str(item.message) for item in caught]
    watch.texts.append((tmp_path / "audit").read_text())
    assert len(watch.spans.get_finished_spans()) >= 24
    assert watch.leaks() == []


async def test_no_process_or_file_of_this_host_shows_a_secret(backend: LocalBackend) -> None:
    """What the sandbox's own processes have in their environment is theirs, and only its owner's."""
    async with await backend.create(timeout=60, secrets=SECRETS, env=ENVIRONMENT) as sandbox:
        await sandbox.run(["true"], env=OF_ONE_CALL)
        shown = await anyio.to_thread.run_sync(shown_of, sandbox.id)
    assert sandbox.id in shown
    assert [secret for secret in FORBIDDEN if secret in shown] == []


def shown_of(sandbox_id: str) -> str:
    """Return the command lines below this process, and the state files of a sandbox."""
    texts: list[str] = []
    pending = [os.getpid()]
    while pending:
        for pid in children(pending.pop()):
            pending.append(pid)
            try:
                line = Path(f"/proc/{pid}/cmdline").read_text()
            except OSError:
                continue  # it ended while it was looked at
            texts.append(line)
            for word in line.split("\0"):
                folder = Path(word.removeprefix("directory="))
                if folder.name == sandbox_id and folder.is_dir():
                    texts += [path.read_text() for path in folder.glob("*.json")]
    return "\n".join(texts)


def test_sync_facade_shows_no_secret(backend: LocalBackend, watch: Watch) -> None:
    register("canary", lambda: backend)
    value = SECRETS["PLAIN"]
    with create_sync("canary://", timeout=60, secrets=SECRETS) as sandbox:
        with sandbox.stream(["echo", value]) as process:
            watch.texts += [repr(chunk) for chunk in process]
        with pytest.raises(SandboxError) as caught:
            sandbox.run(["true"], cwd=f"/missing/{value}")
        watch.see(caught.value)
        watch.texts += [repr(sandbox), repr(sandbox.files), repr(process)]
    assert watch.leaks() == []


def test_command_line_shows_no_secret(
    backend: LocalBackend, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    value = SECRETS["PLAIN"]
    monkeypatch.setenv("CANARY_API_TOKEN", value)
    register("canary", lambda: backend)
    with create_sync("canary://", timeout=60, secrets=SECRETS):
        for arguments in (["reap", "--backend", "canary"], ["doctor", "--json"]):
            main(arguments)
        shown = capsys.readouterr()
    assert "canary" in shown.out, "the sandbox is not even listed"
    assert [secret for secret in FORBIDDEN if secret in shown.out + shown.err] == []
