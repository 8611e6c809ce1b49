"""A secret that was used everywhere is shown nowhere: not by the engine, and not by us."""

from __future__ import annotations

import json
import logging
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from dockerd import BUSYBOX_IMAGE, PYTHON_IMAGE
from sandboxio.audit import AuditConfig, AuditEvent
from sandboxio.errors import SandboxError
from sandboxio.models import Capability
from sandboxio_docker import DockerBackend

pytestmark = pytest.mark.docker

SECRETS = {
    "PLAIN": "canary-plain-7f3a9c",
    "LONGER": "canary-plain-7f3a9c-and-more",
    "REGEX": r"can(ary.*+?[x]$|^\d",
    "LINES": "-----BEGIN-----\ncanary-line-one-abc\ncanary-line-two-def\n-----END-----",
}
ENVIRONMENT = {"SERVICE_API_TOKEN": "canary-environment-55e1"}
OF_ONE_CALL = {"CALL_PASSWORD": "canary-of-one-call-91b2"}
FORBIDDEN = [
    *(value for name, value in SECRETS.items() if name != "LINES"),
    *(line for line in SECRETS["LINES"].splitlines() if "canary" in line),
    *ENVIRONMENT.values(),
    *OF_ONE_CALL.values(),
]


class Sink:
    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    async def emit(self, event: AuditEvent) -> None:
        self.events.append(event)


def said_by_the_engine(engine: Any, ref: str) -> list[str]:
    """All that an administrator is shown of a container, and of what ran in it."""
    found = engine.inspect_container(ref)
    execs = [engine.exec_inspect(ident) for ident in found["ExecIDs"] or []]
    until = f"{time.time():.9f}"
    events = list(engine.events(since=1, until=until, filters={"container": ref}, decode=True))
    listed = engine.containers(all=True, filters={"id": ref})
    return [json.dumps(item) for item in (found, execs, events, listed, engine.top(ref))]


@pytest.mark.parametrize("image", [PYTHON_IMAGE, BUSYBOX_IMAGE], ids=["guest", "exec"])
async def test_secret_that_was_used_everywhere_is_shown_nowhere(
    engine: Any, image: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sink = Sink()
    backend = DockerBackend(image=image, audit=AuditConfig(sinks=(sink,), capture_code=True))
    shown: list[str] = [repr(backend)]

    async def failing(awaitable: Any) -> None:
        try:
            shown.append(repr(await awaitable))
        except SandboxError as error:
            shown.extend(traceback.format_exception(error, chain=True))
            shown.extend(getattr(error, "__notes__", ()))
            shown.append(repr(error.__dict__))

    plain = SECRETS["PLAIN"]
    # Without a guest, arguments and paths are those of an exec, which `docker events` shows.
    named = plain if image == PYTHON_IMAGE else "name"
    async with await backend.create(timeout=120, env=ENVIRONMENT, secrets=SECRETS) as sandbox:
        shown.append(repr(sandbox))
        # They do arrive, and what a program prints is the caller's own.
        result = await sandbox.run('printf %s "$PLAIN$SERVICE_API_TOKEN"; cat', stdin=plain)
        assert result.stdout == plain + ENVIRONMENT["SERVICE_API_TOKEN"] + plain
        shown.append(repr(result))
        await sandbox.run("sleep 0.1", env=OF_ONE_CALL)
        await failing(sandbox.run('printf %s "$REGEX"; sleep 60', timeout=0.5))
        await failing(sandbox.run(["true"], cwd=f"/nowhere/{named}"))
        await sandbox.files.write("file", plain)
        await failing(sandbox.files.read(f"missing-{named}"))
        (tmp_path / "local").write_text(plain)
        await sandbox.files.upload(tmp_path / "local", "uploaded")
        if Capability.RUN_CODE in sandbox.capabilities:
            await sandbox.run(["echo", *SECRETS.values()])
            await failing(sandbox.run_code(f"raise ValueError({plain!r})"))
        async with await DockerBackend().connect(sandbox.id) as joined:
            shown.append(repr(joined))
            await failing(joined.run(["true"], cwd=f"/nowhere/{named}"))
        shown += said_by_the_engine(engine, sandbox.id)
    shown += [json.dumps(event.as_dict(), default=repr) for event in sink.events]
    shown += [repr(event) for event in sink.events]
    shown += [f"{record.getMessage()} {record.__dict__!r}" for record in caplog.records]
    assert sink.events
    found = {secret for secret in FORBIDDEN for text in shown if secret in text}
    assert not found, [text for text in shown for secret in found if secret in text][:3]
