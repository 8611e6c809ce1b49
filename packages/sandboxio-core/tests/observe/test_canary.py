"""A secret that was used everywhere is shown nowhere."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import traceback
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sandboxio import AsyncSandbox, OrphanedSandboxWarning, SandboxError, register
from sandboxio._cli import main
from sandboxio.audit import AuditConfig, LoggingSink
from sandboxio.spi import DriverBackend

# With characters that mean something to a regular expression, to a shell, to JSON and to an
# address; and one that contains another one.
CANARIES = {
    "PLAIN": "canary-plain-7f3a9c",
    "LONGER": "canary-plain-7f3a9c-and-more",
    "REGEX": r"can(ary.*+?[x]$|^\d",
    "QUOTED": 'can\'ary "quoted" \\ 100%',
    "LINES": "-----BEGIN CANARY-----\ncanary-line-one-abc\ncanary-line-two-def\n-----END-----",
    "UNICODE": "canari-é-✓-ключ",
}
ENVIRONMENT = {"CANARY_API_TOKEN": "canary-environment-55e1"}
OF_ONE_CALL = {"CALL_PASSWORD": "canary-of-one-call-91b2"}
# What must be seen nowhere: each one, and each line of the one that has several.
FORBIDDEN = [
    *(value for value in CANARIES.values() if "\n" not in value),
    *(line for line in CANARIES["LINES"].splitlines() if "canary" in line),
    *ENVIRONMENT.values(),
    *OF_ONE_CALL.values(),
]


class Watch:
    """Collects all that an operation lets out, apart from what it returns."""

    def __init__(self, exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture) -> None:
        self.exporter = exporter
        self.caplog = caplog
        self.texts: list[str] = []

    def everything(self) -> str:
        spans = [span.to_json() for span in self.exporter.get_finished_spans()]
        logs = [
            f"{record.getMessage()} {json.dumps(record.__dict__, default=repr)}"
            for record in self.caplog.records
        ]
        return "\n".join([*self.texts, *spans, *logs])

    def see(self, error: BaseException) -> None:
        """Take in all that is ever printed of an error."""
        link: BaseException | None = error
        while link is not None:
            self.texts += [str(link), repr(link), repr(link.args)]
            self.texts += getattr(link, "__notes__", [])
            link = link.__cause__ or link.__context__
        if isinstance(error, SandboxError):
            self.texts += [error.message, error.hint, str(getattr(error, "path", ""))]
        self.texts += traceback.format_exception(error)


@pytest.fixture
def watch(caplog: pytest.LogCaptureFixture) -> Any:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace._TRACER_PROVIDER_SET_ONCE._done = False
    trace._TRACER_PROVIDER = None
    trace.set_tracer_provider(provider)
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "sandboxio")
    yield Watch(exporter, caplog)
    trace._TRACER_PROVIDER_SET_ONCE._done = False
    trace._TRACER_PROVIDER = None


@pytest.fixture
async def canary(host_driver: Any, collected: Any, watch: Watch) -> Any:
    """A sandbox that knows every canary, and records to all there is."""
    sinks = (collected, LoggingSink(logging.getLogger("canary.audit")))
    backend = DriverBackend(host_driver, audit=AuditConfig(sinks=sinks, capture_code=True))
    async with await backend.create(timeout=100, secrets=CANARIES, env=ENVIRONMENT) as sandbox:
        yield sandbox


async def use_it_everywhere(sandbox: AsyncSandbox, value: str, watch: Watch) -> None:
    quoted = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    name = value.replace("/", "-").replace("\n", " ")[:100]

    async def stream() -> None:
        half = len(value) // 2
        async with sandbox.stream(["sh", "-c", "cat; echo $0", value]) as process:
            await process.send(value[:half])
            await process.send(value[half:])
            await process.send_eof()
            watch.texts.append(repr(process))
            async for chunk in process:
                watch.texts.append(repr(chunk))
            watch.texts.append(repr(await process.wait()))

    async def stream_that_times_out() -> None:
        async with sandbox.stream(["sh", "-c", "echo $0; sleep 99", value], timeout=0.3) as process:
            await process.wait()

    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: sandbox.run(["echo", value, f"--password={value}", f"x{value}y"]),
        lambda: sandbox.run(f"echo '{quoted}'"),
        lambda: sandbox.run(["sh", "-c", "echo $CALL_PASSWORD"], env=OF_ONE_CALL),
        lambda: sandbox.run(["echo", *OF_ONE_CALL.values()]),
        lambda: sandbox.run(["cat"], stdin=value),
        lambda: sandbox.run(["no-such-command", value]),
        lambda: sandbox.run([value]),
        lambda: sandbox.run(["true"], cwd=f"/nowhere/{name}"),
        lambda: sandbox.run(["sh", "-c", "echo $0; sleep 99", value], timeout=0.3),
        lambda: sandbox.run_code(f"raise SystemExit('{quoted}')"),
        lambda: sandbox.run_code(f"print('''{quoted}''')"),
        lambda: sandbox.files.write(f"file {name}", value),
        lambda: sandbox.files.read(f"file {name}"),
        lambda: sandbox.files.read(f"no {name}"),
        lambda: sandbox.files.ls(f"no {name}"),
        lambda: sandbox.files.write(f"no {name}/{name}", value),
        lambda: sandbox.files.stat(f"no {name}"),
        lambda: sandbox.files.upload(f"/no such folder/{name}", "x"),
        lambda: sandbox.files.download(f"no {name}", "x"),
        lambda: sandbox.files.remove(f"file {name}"),
        stream,
        stream_that_times_out,
    ]
    for call in calls:
        try:
            result = await call()
        except SandboxError as error:
            watch.see(error)
        else:
            watch.texts.append("" if isinstance(result, list | bytes) else repr(result))
    try:
        (await sandbox.run(["sh", "-c", "echo $0 >&2; exit 1", value])).raise_for_status()
    except SandboxError as error:
        watch.see(error)
    with anyio.move_on_after(0.2):
        await sandbox.run(["sleep", "99", value])
    watch.texts += [repr(sandbox), repr(sandbox.files), repr(sandbox.policy)]


@pytest.mark.parametrize("name", [*CANARIES, *ENVIRONMENT])
async def test_a_secret_is_in_nothing_that_an_operation_lets_out(
    canary: AsyncSandbox, collected: Any, watch: Watch, name: str
) -> None:
    value = {**CANARIES, **ENVIRONMENT}[name]
    await use_it_everywhere(canary, value, watch)
    events = collected.take()
    assert len(events) >= 24
    watch.texts += [event.as_line() for event in events]
    watch.texts += [json.dumps(event.as_dict(), ensure_ascii=False) for event in events]
    watch.texts += [repr(event) for event in events]
    seen = watch.everything()
    assert "***" in seen
    assert len(watch.exporter.get_finished_spans()) >= 24
    shown = [
        form
        for secret in FORBIDDEN
        for form in {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]}
        if form in seen
    ]
    assert shown == []


async def test_the_caller_s_own_data_is_not_touched(canary: AsyncSandbox, tmp_path: Any) -> None:
    for name, value in CANARIES.items():
        assert (await canary.run(["printenv", name])).stdout == value + "\n"
        assert (await canary.run(["cat"], stdin=value)).stdout == value
        await canary.files.write("file", value)
        assert await canary.files.read("file") == value.encode()
        data = b""
        async with canary.stream(["printf", "%s", value]) as process:
            async for chunk in process:
                data += chunk.data
        assert data.decode() == value


@pytest.mark.parametrize("how", ["in the text", "in a note", "in a cause", "in an attribute"])
async def test_an_error_of_the_provider_shows_no_secret(
    host_driver: Any,
    watch: Watch,
    collected: Any,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    secret = CANARIES["PLAIN"]

    class Opaque(Exception):
        """Its text is not made of its arguments, like that of many an SDK."""

        def __str__(self) -> str:
            return f"status 500, environment {secret}"

    def provider_error() -> Exception:
        if how == "in the text":
            return OSError(5, f"no {secret}", f"/run/{secret}")
        if how == "in a note":
            error = ValueError("bad")
            error.add_note(f"the environment was {secret}")
            return error
        if how == "in a cause":
            error = ValueError("bad")
            error.__cause__ = KeyError(secret)
            error.__cause__.__context__ = Opaque()
            return error
        return Opaque()

    async def start(command: Any) -> object:
        raise provider_error()

    backend = DriverBackend(host_driver, audit=AuditConfig(sinks=(collected,)))
    async with await backend.create(timeout=60, secrets=CANARIES) as sandbox:
        monkeypatch.setattr(
            "sandboxio.guest.sandbox.GuestSandbox.start", lambda self, command: start(command)
        )
        with pytest.raises(SandboxError) as caught:
            await sandbox.run(["true"])
        assert caught.value.__cause__ is not None, "why it failed must be told all the same"
        watch.see(caught.value)
        watch.texts += [event.as_line() for event in collected.events]
        assert secret not in watch.everything()
        assert "***" in watch.everything()


async def test_a_create_that_fails_shows_no_secret(
    host_driver: Any, watch: Watch, collected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def provision(request: Any) -> object:
        raise RuntimeError(f"the engine refused {dict(request.env)}")

    monkeypatch.setattr(host_driver, "provision", provision)
    backend = DriverBackend(host_driver, audit=AuditConfig(sinks=(collected,)))
    with pytest.raises(SandboxError) as caught:
        await backend.create(timeout=60, secrets=CANARIES, env=ENVIRONMENT)
    watch.see(caught.value)
    watch.texts += [event.as_line() for event in collected.events]
    seen = watch.everything()
    assert [secret for secret in FORBIDDEN if secret in seen] == []
    assert "'PLAIN': '***'" in caught.value.message


async def test_a_kill_that_fails_shows_no_secret(
    host_driver: Any, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = CANARIES["PLAIN"]
    sandbox = await DriverBackend(host_driver).create(timeout=60, secrets=CANARIES)

    async def terminate(self: Any) -> None:
        raise OSError(f"cannot end it, {secret}")

    with monkeypatch.context() as patched:
        patched.setattr(type(cast(Any, sandbox)._live.driver), "terminate", terminate)
        with pytest.raises(SandboxError) as caught:
            await sandbox.kill()
        watch.see(caught.value)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", OrphanedSandboxWarning)
            with pytest.raises(ZeroDivisionError):
                async with sandbox:
                    raise ZeroDivisionError
        watch.texts += [str(warning.message) for warning in warned]
    assert secret not in watch.everything()
    await sandbox.kill()


async def test_who_attaches_masks_the_secrets_of_the_creator(
    host_driver: Any, collected: Any
) -> None:
    backend = DriverBackend(host_driver, audit=AuditConfig(sinks=(collected,)))
    async with await backend.create(timeout=60, secrets=CANARIES, env=ENVIRONMENT) as sandbox:
        async with await backend.connect(sandbox.id) as attached:
            collected.take()
            await attached.run(["echo", *CANARIES.values(), *ENVIRONMENT.values()])
        (event,) = collected.take()
        assert set(event.argv[1:]) == {"***"}


async def test_a_request_shows_no_secret(host_driver: Any) -> None:
    async with await DriverBackend(host_driver).create(timeout=60, secrets=CANARIES) as sandbox:
        await sandbox.run(["true"])
    assert [s for s in FORBIDDEN if s in repr(host_driver.requests)] == []


@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize(
    "dsn",
    [
        "docker://user:canary-in-a-dsn@registry/image",
        "local://?token=canary-in-a-dsn",
        "local://?timeout=canary-in-a-dsn",
        "canary-in-a-dsn",
    ],
)
def test_the_command_line_shows_no_secret_of_a_target(dsn: str, debug: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sandboxio._cli", "demo", "--backend", dsn, "--json"],
        env={"PATH": "/usr/bin:/bin", "SBX_DEBUG": debug},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "SBX_E1000" in done.stdout + done.stderr
    assert "canary-in-a-dsn" not in done.stdout + done.stderr


def test_the_command_line_masks_what_a_provider_says(
    host_driver: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo has no secrets of its own, so the sandbox that it makes is given one here."""

    async def provision(request: Any) -> object:
        raise RuntimeError(f"the engine refused {dict(request.env)}")

    class WithSecret(DriverBackend):
        async def create(self, **arguments: Any) -> Any:
            return await super().create(**{**arguments, "secrets": CANARIES})

    monkeypatch.setattr(host_driver, "provision", provision)
    register("hostofcanary", lambda: WithSecret(host_driver))
    assert main(["demo", "--backend", "hostofcanary://"]) == 1
    assert main(["demo", "--backend", "hostofcanary://", "--json"]) == 1
    printed = "".join(capsys.readouterr())
    assert [secret for secret in FORBIDDEN if secret in printed] == []
    assert "***" in printed
