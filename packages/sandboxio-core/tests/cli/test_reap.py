"""``sandboxio reap``: what it lists, what it ends, and above all what it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

import sandboxio
from sandboxio._cli import reaping
from sandboxio.errors import ConnectError, SandboxUnreachable
from sandboxio.models import Capability, IsolationTier, ManagedSandbox

PROCESS_BOUND = 60.0
"""Seconds for a process that lists or ends sandboxes, on a busy machine."""


class Holder:
    """A backend that holds what a test says."""

    name = "holder"
    isolation = IsolationTier.CONTAINER
    capabilities = Capability(0)
    create: Any = None
    connect: Any = None

    def __init__(self, *held: ManagedSandbox) -> None:
        self.held = {sandbox.sandbox_id: sandbox for sandbox in held}
        self.killed: list[str] = []
        self.list_error: Exception | None = None
        self.kill_error: Exception | None = None

    async def list_managed(
        self, *, labels: Mapping[str, str] | None = None
    ) -> list[ManagedSandbox]:
        if self.list_error is not None:
            raise self.list_error
        wanted = (labels or {}).items()
        return [one for one in self.held.values() if wanted <= one.labels.items()]

    async def kill_managed(self, sandbox_id: str) -> bool:
        if self.kill_error is not None:
            raise self.kill_error
        self.killed.append(sandbox_id)
        return self.held.pop(sandbox_id, None) is not None


def held(name: str, alive: bool | None, **labels: str) -> ManagedSandbox:
    return ManagedSandbox(
        name,
        "holder",
        "running",
        datetime.now(UTC) - timedelta(hours=3, minutes=12, seconds=5),
        labels,
        "pid 4711 on there",
        alive,
    )


@pytest.fixture
def holder() -> Holder:
    made = Holder(
        held("sbx-dead", False, tenant="acme"),
        held("sbx-alive", True, tenant="acme"),
        held("sbx-far", None, tenant="other"),
    )
    sandboxio.register("holder", lambda: made)
    return made


REAP = ("reap", "--backend", "holder")


def verdicts(shown: Any) -> dict[str, tuple[str, str | None]]:
    (backend,) = json.loads(shown.out)["backends"]
    return {one["sandbox_id"]: (one["verdict"], one["outcome"]) for one in backend["sandboxes"]}


def test_default_is_a_dry_run_that_tells_orphans_from_what_is_in_use(
    holder: Holder, command: Any
) -> None:
    shown = command(*REAP, "--json")
    assert shown.code == 0
    assert verdicts(shown) == {
        "sbx-dead": ("orphan", None),
        "sbx-alive": ("in use", None),
        "sbx-far": ("unknown", None),
    }
    text = command(*REAP)
    assert text.code == 0
    assert "3 h 12 min old, owner pid 4711 on there (dead)" in text.out
    assert "(alive)" in text.out
    assert "(not known whether it is alive)" in text.out
    assert "tenant=acme" in text.out
    assert "1 orphan, 1 in use, 1 unknown. This was a dry run: nothing was ended." in text.out
    assert text.out.endswith("To end the orphans: sandboxio reap --backend holder --kill\n")
    assert holder.killed == []


def test_json_holds_owner_age_state_and_labels(holder: Holder, command: Any) -> None:
    (backend,) = json.loads(command(*REAP, "--json").out)["backends"]
    dead = next(one for one in backend["sandboxes"] if one["sandbox_id"] == "sbx-dead")
    assert dead["age_s"] > 3 * 3600
    assert datetime.fromisoformat(dead["created_at"]).tzinfo is not None
    assert (dead["state"], dead["owner"], dead["owner_alive"], dead["labels"]) == (
        "running",
        "pid 4711 on there",
        False,
        {"tenant": "acme"},
    )


def test_kill_ends_orphans_and_nothing_else(holder: Holder, command: Any) -> None:
    shown = command(*REAP, "--kill", "--json")
    assert shown.code == 0
    assert verdicts(shown) == {
        "sbx-dead": ("orphan", "ended"),
        "sbx-alive": ("in use", "left alone"),
        "sbx-far": ("unknown", "left alone"),
    }
    assert holder.killed == ["sbx-dead"]
    text = command(*REAP, "--kill").out
    assert "Ended: 0. Failed: 0. Left alone: 2." in text
    assert "add --include unknown" in text
    assert "add --include in-use" in text


def test_what_is_named_is_ended_too(holder: Holder, command: Any) -> None:
    assert command(*REAP, "--kill", "--include", "unknown").code == 0
    assert sorted(holder.killed) == ["sbx-dead", "sbx-far"]
    assert command(*REAP, "--kill", "--include", "in-use").code == 0
    assert holder.held == {}


def test_labels_narrow_what_is_listed_and_ended(holder: Holder, command: Any) -> None:
    narrow = (*REAP, "--label", "tenant=acme")
    assert verdicts(command(*narrow, "--json")).keys() == {"sbx-dead", "sbx-alive"}
    assert "--label tenant=acme --kill" in command(*narrow).out
    everything = ("--kill", "--include", "unknown", "--include", "in-use")
    assert command(*REAP, "--label", "tenant=other", *everything).code == 0
    assert holder.killed == ["sbx-far"]


def test_kill_that_fails_is_exit_code_1_and_one_that_came_too_late_is_not(
    holder: Holder, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder.kill_error = ConnectError("It refuses.", hint="Ask again.")
    shown = command(*REAP, "--kill")
    assert shown.code == 1
    assert "FAILED  It refuses. (Ask again.)" in shown.out
    assert "Failed: 1." in shown.out

    async def gone(sandbox_id: str) -> bool:
        return False

    holder.kill_error = None
    monkeypatch.setattr(holder, "kill_managed", gone)
    assert verdicts(command(*REAP, "--kill", "--json"))["sbx-dead"] == ("orphan", "gone")
    assert command(*REAP, "--kill").code == 0


@pytest.mark.parametrize("error", [SandboxUnreachable("It is away."), OSError("It is away.")])
def test_backend_that_cannot_be_listed_is_exit_code_1_and_hides_no_other(
    holder: Holder, command: Any, error: Exception
) -> None:
    broken = Holder()
    broken.list_error = error
    sandboxio.register("broken", lambda: broken)
    shown = command(*REAP, "--backend", "broken", "--kill")
    assert shown.code == 1
    assert "It is away." in shown.out
    assert holder.killed == ["sbx-dead"]


def test_backend_that_never_answers_is_given_up(
    holder: Holder, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*, labels: object = None) -> list[ManagedSandbox]:
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(reaping, "LIST_BOUND", 0.1)
    monkeypatch.setattr(holder, "list_managed", never)
    shown = command(*REAP)
    assert shown.code == 1
    assert "did not answer within 0.1 s" in shown.out


def test_backend_that_is_not_installed_is_reported_and_no_failure(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sandboxio._wiring import registry

    monkeypatch.setattr(registry, "names_in", lambda group: set())
    shown = command("reap", "--backend", "e2b")
    assert shown.code == 0
    assert "e2b  not installed" in shown.out
    assert 'Install: uv pip install "sandboxio[e2b]"' in shown.out
    assert command("reap").code == 0


def test_backend_that_lists_nothing_is_a_failure_only_if_it_was_asked_for(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sandboxio._wiring import registry

    class Plain:
        name = "plain"

    monkeypatch.setattr(registry, "names_in", lambda group: set())
    sandboxio.register("plain", lambda: Plain())  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType]
    assert command("reap").code == 0
    assert command("reap", "--backend", "plain").code == 1


@pytest.mark.parametrize(
    "words",
    [["--include", "unknown"], ["--kill", "--include", "all"], ["--label", "x"], ["more"]],
)
def test_usage_errors_are_exit_code_2_and_end_nothing(
    holder: Holder, command: Any, words: list[str]
) -> None:
    shown = command(*REAP, *words)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err
    assert holder.killed == []


def test_labels_cannot_drive_the_terminal(command: Any) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\r\n\u202e"
    holder = Holder(held("sbx-dead", False, **{evil: evil}))
    sandboxio.register("holder", lambda: holder)
    shown = command(*REAP)
    assert "\\x1b]0;owned\\x07\\x1b[2J" in shown.out
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(shown.out)
    (backend,) = json.loads(command(*REAP, "--json").out)["backends"]
    assert backend["sandboxes"][0]["labels"] == {evil: evil}


# ----- real backends


def reap_process(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandboxio._cli", "reap", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_BOUND,
    )


def sandboxes(*words: str) -> dict[str, dict[str, Any]]:
    done = reap_process(*words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (backend,) = json.loads(done.stdout)["backends"]
    return {one["sandbox_id"]: one for one in backend["sandboxes"]}


async def test_live_local_sandbox_is_in_use_and_survives_a_kill() -> None:
    run = uuid.uuid4().hex
    narrow = ("--backend", "local", "--label", f"run={run}")
    async with await sandboxio.create("local://", metadata={"run": run}) as sandbox:
        (found,) = (await anyio.to_thread.run_sync(lambda: sandboxes(*narrow, "--kill"))).values()
        assert (found["sandbox_id"], found["verdict"], found["outcome"]) == (
            sandbox.id,
            "in use",
            "left alone",
        )
        assert found["owner"] == f"pid {os.getpid()} on this host"
        assert (await sandbox.run(["echo", "alive"])).stdout == "alive\n"
        ended = await anyio.to_thread.run_sync(
            lambda: sandboxes(*narrow, "--kill", "--include", "in-use")
        )
        assert ended[sandbox.id]["outcome"] == "ended"
        with pytest.raises(sandboxio.SandboxGone):
            await sandbox.run(["true"])
    assert await anyio.to_thread.run_sync(lambda: sandboxes(*narrow)) == {}


ABANDON = """
import os, sys, anyio, sandboxio
async def main():
    sandbox = await sandboxio.create(
        "docker://" + sys.argv[2], timeout=120, metadata={"run": sys.argv[1]}
    )
    print(sandbox.id, flush=True)
    os._exit(0)
anyio.run(main)
"""


@pytest.mark.docker
@pytest.mark.slow
def test_container_of_a_dead_process_is_an_orphan_and_is_ended() -> None:
    run = uuid.uuid4().hex
    image = os.environ.get("SBX_TEST_IMAGE") or "python:3.12-slim"
    # Without the lease, it outlives who made it, as on a machine that lost its power.
    made = subprocess.run(
        [sys.executable, "-c", ABANDON, run, image],
        env={**os.environ, "SBX_DOCKER_REAPER": "0"},
        capture_output=True,
        text=True,
        check=True,
        timeout=PROCESS_BOUND,
    )
    narrow = ("--backend", "docker", "--label", f"run={run}")
    (ident,) = made.stdout.split()
    assert {one: value["verdict"] for one, value in sandboxes(*narrow).items()} == {ident: "orphan"}
    assert sandboxes(*narrow)[ident]["state"] == "running", "a dry run ends nothing"
    assert sandboxes(*narrow, "--kill")[ident]["outcome"] == "ended"
    assert sandboxes(*narrow) == {}
