"""``sandboxio demo``: it proves an installation, and fails where there is something to fail for."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

import sandboxio
from sandboxio._cli import demo
from sandboxio.models import ExecResult
from sandboxio_testing import FakeBackend

STEPS = ["create", "run_code", "stream", "egress denied", "teardown"]

HELLO = ExecResult(exit_code=0, stdout="hello from Python 3.12.0\n", stderr="")

DENIED = ExecResult(
    exit_code=0, stdout="1.1.1.1 ENETUNREACH\n2606:4700:4700::1111 ENETUNREACH\n", stderr=""
)


def result(code: int, stdout: str = "", stderr: str = "") -> ExecResult:
    return ExecResult(exit_code=code, stdout=stdout, stderr=stderr)


@pytest.fixture
def fake() -> Any:
    """A fake whose code does what the demo's does, unless a test says otherwise."""
    made = FakeBackend()
    made.on_run_code("sys.version", HELLO)
    made.on_run_code("REACHED", DENIED)
    sandboxio.register("demonstrated", lambda: made)
    yield made
    made.close()


DEMO = ("demo", "--backend", "demonstrated://")


def test_text_and_json_tell_the_same_five_steps(fake: FakeBackend, command: Any) -> None:
    shown = command(*DEMO, "--json")
    assert (shown.code, shown.err) == (0, "")
    found = json.loads(shown.out)
    assert [step["name"] for step in found["steps"]] == STEPS
    assert all(step["ok"] and step["ms"] >= 0 for step in found["steps"])
    assert (found["ok"], found["backend"], found["isolation"]) == (True, "fake", "container")
    text = command(*DEMO)
    assert (text.code, text.err) == (0, "")
    for step in found["steps"][1:]:
        assert f"ok   {step['name']}" in text.out
        assert step["detail"] in text.out
    assert "All steps passed on fake (isolation: container)." in text.out
    assert fake.open_sandboxes == frozenset()


def test_network_that_is_reached_fails_the_demo(fake: FakeBackend, command: Any) -> None:
    fake.on_run_code("REACHED", result(demo.REACHED, "1.1.1.1 REACHED\n"))
    shown = command(*DEMO)
    assert shown.code == 1
    assert "FAIL egress denied" in shown.out
    assert "THE NETWORK WAS REACHED" in shown.out
    assert "All steps passed" not in shown.out
    assert json.loads(command(*DEMO, "--json").out)["ok"] is False


def test_probe_that_breaks_down_is_no_proof(fake: FakeBackend, command: Any) -> None:
    fake.on_run_code("REACHED", result(1, "", "Traceback: no socket module"))
    shown = command(*DEMO)
    assert shown.code == 1
    assert "the probe itself failed" in shown.out
    fake.on_run_code("REACHED", result(0, "1.1.1.1 ENETUNREACH\n"))
    assert command(*DEMO).code == 1, "half a probe proves half of it"


def test_step_that_fails_does_not_keep_the_sandbox(fake: FakeBackend, command: Any) -> None:
    fake.on_run_code("sys.version", result(3, "", "no Python"))
    shown = command(*DEMO)
    assert shown.code == 1
    assert "FAIL run_code" in shown.out
    assert "ok   teardown" in shown.out
    assert fake.open_sandboxes == frozenset()


def test_no_option_weakens_what_the_demo_runs_under(fake: FakeBackend, command: Any) -> None:
    assert command(*DEMO).code == 0
    (create,) = [call for call in fake.calls if call.op == "create"]
    assert create.network == sandboxio.NetworkPolicy(egress="deny")
    assert "egress" not in command("demo", "--help").out.replace("egress denied", "")
    assert command(*DEMO, "--egress", "allow").code == 2
    assert command("demo", "--backend", "demonstrated://?egress=allow").code == 1


def test_backend_without_streaming_skips_that_step(command: Any) -> None:
    fake = FakeBackend()
    without = FakeBackend(capabilities=fake.capabilities & ~sandboxio.Capability.STREAMING)
    without.on_run_code("sys.version", HELLO)
    without.on_run_code("REACHED", DENIED)
    sandboxio.register("demonstrated", lambda: without)
    found = json.loads(command(*DEMO, "--json").out)
    assert [step["name"] for step in found["steps"]] == [one for one in STEPS if one != "stream"]
    fake.close()
    without.close()


def test_output_of_a_sandbox_cannot_drive_the_terminal(fake: FakeBackend, command: Any) -> None:
    fake.on_run_code("sys.version", result(0, "\x1b]0;owned\x07hello\x1b[2J\n"))
    shown = command(*DEMO)
    assert "\\x1b]0;owned\\x07hello\\x1b[2J" in shown.out
    assert "\x1b" not in shown.out


@pytest.mark.parametrize("target", [None, "docker://", "local://"])
def test_missing_backend_comes_with_its_install_command(
    target: str | None, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sandboxio._api import routed
    from sandboxio._wiring import registry

    monkeypatch.setattr(registry, "names_in", lambda group: set())
    routed.default_router.cache_clear()
    shown = command("demo", *(() if target is None else ("--backend", target)))
    routed.default_router.cache_clear()
    assert shown.code == 1
    assert 'uv pip install "sandboxio[' in shown.err


def test_demo_passes_on_a_real_local_sandbox(command: Any) -> None:
    shown = command("demo", "--backend", "local://", "--json")
    assert shown.code == 0, shown.out
    found = json.loads(shown.out)
    assert [step["name"] for step in found["steps"]] == STEPS
    assert found["backend"] == "local"


@pytest.mark.docker
def test_demo_passes_on_a_real_engine(command: Any) -> None:
    image = os.environ.get("SBX_TEST_IMAGE") or "python:3.12-slim"
    shown = command("demo", "--backend", f"docker://{image}", "--json")
    assert shown.code == 0, shown.out
    found = json.loads(shown.out)
    assert [step["name"] for step in found["steps"]] == STEPS
    assert found["backend"] == "docker"
