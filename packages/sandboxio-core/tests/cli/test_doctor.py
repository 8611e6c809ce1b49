"""``sandboxio doctor``: what it finds out, what it never says, and how long it waits."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import sandboxio
from sandboxio._api import doctor as doctoring
from sandboxio._wiring.registry import default_registry
from sandboxio.errors import BackendNotFound, ConfigurationError, SandboxUnreachable
from sandboxio.models import Capability, Health, IsolationTier
from sandboxio.routing import Router, RouterTuning
from sandboxio.spi import Check

GROUP = "sandboxio"

THE_DEFAULT = doctoring.DOCTOR_BOUND

PROCESS_BOUND = 60.0
"""Seconds for a whole process on a busy machine; one takes less than three on a quiet one."""

PLUGIN = """
from dataclasses import dataclass
from sandboxio.models import BackendConfig, Capability, Health, IsolationTier
from sandboxio.spi import BackendPlugin, Check, hookimpl

@dataclass(frozen=True, kw_only=True)
class Config(BackendConfig):
    @property
    def backend(self): return {name!r}

class Backend:
    name = {name!r}
    isolation = IsolationTier.GVISOR
    capabilities = Capability(0)
    def __init__(self, config): pass
{body}

@hookimpl
def sandboxio_backend():
    return BackendPlugin(
        name={name!r}, summary="a third party's", factory=Backend, config=Config,
        isolation=IsolationTier.GVISOR, isolation_evidence="https://example.invalid/tier",
        isolation_date="2026-01-02", credentials={credentials!r}, install="pip install it",
    )
"""

DIAGNOSES = """
    async def diagnose(self):
        yield Check.passed("first", "found at once")
        yield Check.note("second", "could be better", "make it better")
        yield Check.failed("third", "is broken", "repair --it")
"""

HEALTHY = """
    async def health(self):
        return Health(ok=True, detail="feels fine", facts=(("engine", "1.2"),))
"""

BLOCKS = """
    async def diagnose(self):
        import threading
        yield Check.passed("first", "found at once")
        threading.Event().wait()
"""

HANGS = """
    async def diagnose(self):
        import anyio
        yield Check.passed("first", "found at once")
        await anyio.sleep_forever()
"""

RAISES = """
    async def diagnose(self):
        yield Check.passed("first", "found at once")
        raise OSError("no such\\nluck")
"""


def plugin(name: str, body: str = "    pass\n", credentials: tuple[str, ...] = ()) -> str:
    return PLUGIN.format(name=name, body=body, credentials=credentials)


def checks_of(report: sandboxio.DoctorReport, name: str) -> dict[str, Check]:
    (found,) = [backend for backend in report.backends if backend.name == name]
    return {check.name: check for check in found.checks}


def test_text_and_json_say_the_same(install: Any, command: Any) -> None:
    install("sbx-test-one", GROUP, "one", plugin("one", DIAGNOSES))
    shown = command("doctor", "one", "--json")
    assert (shown.code, shown.err) == (1, "")
    found = json.loads(shown.out)
    assert found["ok"] is False
    (one,) = found["backends"]
    assert [check["status"] for check in one["checks"]] == ["ok", "note", "failed"]
    assert one["isolation"] == {
        "tier": "gvisor",
        "evidence": "https://example.invalid/tier",
        "date": "2026-01-02",
    }
    assert one["versions"] == {"sbx-test-one": "1.0"}
    text = command("doctor", "one")
    assert text.code == 1
    for word in [one["name"], one["summary"], *one["isolation"].values()]:
        assert word in text.out
    for check in one["checks"]:
        assert check["name"] in text.out
        assert check["detail"] in text.out
        assert (check["hint"] or "") in text.out
    assert "Fix: repair --it" in text.out
    assert "Failed: one." in text.out
    assert "\x1b[" not in text.out


def test_every_failing_line_has_a_fix_and_a_healthy_backend_is_exit_code_0(
    install: Any, command: Any
) -> None:
    install("sbx-test-one", GROUP, "one", plugin("one", HEALTHY))
    shown = command("doctor", "one")
    assert shown.code == 0
    assert "feels fine" in shown.out
    assert "1.2" in shown.out
    assert "Usable: one. Failed: none." in shown.out
    for backend in sandboxio.doctor().backends:
        for check in backend.checks:
            assert check.hint or check.status != "failed"


def test_backend_without_a_health_check_says_so(install: Any) -> None:
    install("sbx-test-one", GROUP, "one", plugin("one"))
    report = sandboxio.doctor(["one"])
    assert report.ok
    assert checks_of(report, "one")["health"].status == "note"


def test_what_is_not_installed_comes_with_its_command_and_is_no_failure(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sandboxio._wiring import registry

    monkeypatch.setattr(registry, "names_in", lambda group: set())
    shown = command("doctor", "--json")
    assert shown.code == 0
    found = {backend["name"]: backend for backend in json.loads(shown.out)["backends"]}
    assert {"docker", "e2b", "local"} <= found.keys()
    assert not any(backend["installed"] for backend in found.values())
    assert found["docker"]["install"] == 'uv pip install "sandboxio[docker]"'
    assert 'Install: uv pip install "sandboxio[e2b]"' in command("doctor").out


def test_unknown_name_is_refused_with_those_that_there_are(command: Any) -> None:
    with pytest.raises(BackendNotFound):
        sandboxio.doctor(["no_such_backend"])
    shown = command("doctor", "no_such_backend")
    assert (shown.code, shown.out) == (1, "")
    assert "Installed: " in shown.err


BROKEN = {
    "raises": "raise RuntimeError('broken on import')",
    "leaves": "import sys; sys.exit(3)",
    "imports what is not there": "import no_such_module_at_all",
    "has no hook": "",
    "cannot be made": plugin("bad").replace(
        "def __init__(self, config): pass", "def f(self): pass"
    ),
    "raises when asked": plugin("bad", RAISES),
}


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN)
def test_broken_plugin_harms_only_its_own_name(install: Any, command: Any, source: str) -> None:
    install("sbx-test-bad", GROUP, "bad", source)
    install("sbx-test-one", GROUP, "one", plugin("one", HEALTHY))
    report = sandboxio.doctor(["bad", "one"])
    bad, one = report.backends
    assert not bad.ok
    assert one.ok
    assert [check.hint for check in bad.checks if check.status == "failed"]
    shown = command("doctor", "bad", "one")
    assert shown.code == 1
    assert "Usable: one. Failed: bad." in shown.out


@pytest.mark.parametrize("body", [BLOCKS, HANGS], ids=["blocks its loop", "never answers"])
def test_backend_that_hangs_keeps_what_it_said(install: Any, body: str) -> None:
    install("sbx-test-bad", GROUP, "bad", plugin("bad", body))
    report = sandboxio.doctor(["bad"], timeout=3)
    checks = checks_of(report, "bad")
    assert list(checks) == ["first", "answer"]
    assert (checks["first"].status, checks["answer"].status) == ("ok", "failed")
    assert "sandboxio doctor bad" in str(checks["answer"].hint)


def test_plugin_that_hangs_while_it_is_loaded_delays_no_other(install: Any) -> None:
    install("sbx-test-bad", GROUP, "bad", "import threading; threading.Event().wait()")
    install("sbx-test-one", GROUP, "one", plugin("one", HEALTHY))
    report = sandboxio.doctor(["bad", "one"], timeout=5)
    assert checks_of(report, "bad").keys() == {"answer"}
    assert checks_of(report, "one")["health"].status == "ok"


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[str]:
    """The address of a daemon that accepts and never answers."""
    path = tmp_path / "silent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(16)
        yield f"unix://{path}"


def in_a_new_process(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "sandboxio._cli", *words],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_BOUND,
    )


def test_daemon_that_hangs_is_said_with_its_address(silent: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("DOCKER_HOST", silent)
    checks = checks_of(sandboxio.doctor(["docker"]), "docker")
    assert checks["endpoint"].detail == f"{silent} (from DOCKER_HOST)"
    assert checks["endpoint"].status == "ok"
    assert checks["engine"].status == "failed"
    assert "does not answer" in checks["engine"].detail
    assert "look at its log, or restart it" in str(checks["engine"].hint)
    assert "answer" not in checks, "it was given up before all of doctor was"


def test_command_ends_although_a_daemon_hangs(silent: str) -> None:
    """What is left of the question must not keep the process from ending, either."""
    assert 0 < THE_DEFAULT < 2.5, "the command shall end within three seconds"
    done = in_a_new_process("doctor", "docker", "--json", DOCKER_HOST=silent)
    assert (done.returncode, done.stderr) == (1, "")
    (docker,) = json.loads(done.stdout)["backends"]
    assert docker["ok"] is False


CANARY = "c4n4ry-of-the-doctor"


def test_credentials_are_named_and_never_shown(
    install: Any, command: Any, monkeypatch: Any
) -> None:
    leaks = f"""
    async def health(self):
        import os
        raise OSError("refused " + os.environ["SBX_TEST_KEY"] + " at tcp://me:{CANARY}-2@host")
    """
    names = ("SBX_TEST_KEY", "SBX_TEST_OTHER")
    install("sbx-test-one", GROUP, "one", plugin("one", leaks, names))
    monkeypatch.setenv("SBX_TEST_KEY", CANARY)
    monkeypatch.delenv("SBX_TEST_OTHER", raising=False)
    for words in (("doctor", "one"), ("doctor", "one", "--json")):
        shown = command(*words)
        assert shown.code == 1
        assert CANARY not in shown.out + shown.err
        assert "refused ***" in shown.out
        assert "me:***@host" in shown.out
        assert "SBX_TEST_OTHER is not set" in shown.out
        assert "export SBX_TEST_OTHER=..." in shown.out
    (one,) = sandboxio.doctor(["one"]).backends
    assert one.credentials == (("SBX_TEST_KEY", True), ("SBX_TEST_OTHER", False))
    assert "SBX_TEST_KEY is set" in command("doctor", "one").out


def test_password_in_the_address_of_a_daemon_is_not_shown() -> None:
    words = ("doctor", "docker", "--timeout", "30")
    done = in_a_new_process(*words, DOCKER_HOST=f"tcp://me:{CANARY}@127.0.0.1:1")
    assert done.returncode == 1
    assert CANARY not in done.stdout + done.stderr
    assert "from DOCKER_HOST" in done.stdout


def test_requirement_that_is_missing_is_named_with_the_command_that_installs_it(
    install: Any,
) -> None:
    source = plugin("one", HEALTHY)
    install("sbx-test-one", GROUP, "one", source, "sbx-no-such-sdk (>=2) ; extra == 'more'")
    assert sandboxio.doctor(["one"]).ok
    install("sbx-test-two", GROUP, "two", plugin("two", HEALTHY), "sbx-no-such-sdk[x]>=2")
    missing = checks_of(sandboxio.doctor(["two"]), "two")["requirement"]
    assert (missing.status, missing.hint) == ("failed", "pip install it")
    assert "sbx-no-such-sdk" in missing.detail


class OfTheCaller:
    """A backend that a program registered."""

    name = "mine"
    isolation = IsolationTier.MICROVM
    capabilities = ~Capability(0)
    says: Any = Health(ok=True, detail="here")
    create: Any = None
    connect: Any = None

    async def health(self) -> Health:
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.fixture
def mine() -> OfTheCaller:
    made = OfTheCaller()
    sandboxio.register("doctors_mine", lambda: made)
    return made


def test_registered_backend_is_looked_at_by_its_own_tier(mine: OfTheCaller) -> None:
    (report,) = sandboxio.doctor(["doctors_mine"]).backends
    assert (report.installed, report.ok, report.isolation) == (True, True, IsolationTier.MICROVM)
    mine.says = SandboxUnreachable("It is away.", hint="Fetch it.")
    (report,) = sandboxio.doctor(["doctors_mine"]).backends
    assert [(check.detail, check.hint) for check in report.checks] == [("It is away.", "Fetch it.")]


async def test_doctor_can_be_called_where_an_event_loop_runs(mine: OfTheCaller) -> None:
    assert sandboxio.doctor(["doctors_mine"]).ok
    report = await anyio.to_thread.run_sync(lambda: sandboxio.doctor(["doctors_mine"]))
    assert report.ok


FILE = """\
backends:
  first: { adapter: doctors_mine }
  second: { adapter: no_such_adapter, priority: 9 }
  third: { adapter: doctors_mine, enabled: false }
isolation_classes:
  standard: { backend: first }
default_class: standard
"""


def test_entries_of_a_routing_file_are_looked_at(
    mine: OfTheCaller, tmp_path: Path, command: Any
) -> None:
    path = tmp_path / "routing.yaml"
    path.write_text(FILE)
    shown = command("doctor", "doctors_mine", "--routing", str(path), "--json")
    assert shown.code == 1
    routing = json.loads(shown.out)["routing"]
    assert routing["taken"] == "first"
    assert [(entry["name"], entry["circuit"]) for entry in routing["entries"]] == [
        ("first", "closed"),
        ("second", "closed"),
        ("third", "closed"),
    ]
    assert [check["status"] for check in routing["checks"]] == ["ok", "failed", "note"]
    text = command("doctor", "doctors_mine", "--routing", str(path)).out
    assert "takes first" in text
    assert "disabled in the routing file" in text
    assert "Failed: routing." in text


def test_bad_routing_file_is_a_failing_check_with_the_line(
    mine: OfTheCaller, tmp_path: Path, command: Any
) -> None:
    path = tmp_path / "routing.yaml"
    path.write_text("backends: 3\n")
    shown = command("doctor", "doctors_mine", "--routing", str(path))
    assert shown.code == 1
    assert "line 1" in shown.out
    assert "Fix: " in shown.out


async def test_open_circuit_of_a_live_router_is_shown_with_its_last_failure(
    host_driver: Any,
) -> None:
    from sandboxio.spi import DriverBackend

    async def refuse(request: object) -> None:
        raise SandboxUnreachable("nobody is at home")

    host_driver.provision = refuse
    sandboxio.register("doctors_host", lambda: DriverBackend(host_driver))
    router = Router.from_dict(
        {
            "backends": {"only": {"adapter": "doctors_host"}},
            "isolation_classes": {"standard": {"backend": "only"}},
            "default_class": "standard",
        },
        tuning=RouterTuning(failures_to_open=1, open_for=300),
    )
    with pytest.raises(sandboxio.SandboxError):
        await router.create()
    report = sandboxio.doctor(["doctors_host"], routing=router)
    assert report.routing is not None
    (entry,), (check,) = report.routing.entries, report.routing.checks
    assert (entry.circuit, entry.failures) == ("open", 1)
    assert check.status == "failed"
    assert "nobody is at home" in check.detail
    assert not report.ok
    caps = checks_of(report, "doctors_host")["caps"]
    assert caps.detail == "1 CPU, 64 MiB of memory, 64 processes; not capped: disk_mb"
    assert caps.hint == "The host has no disk quota."


@pytest.mark.parametrize("value", [0, -1, float("nan"), True, "2"])
def test_timeout_must_be_a_time(value: Any, command: Any) -> None:
    with pytest.raises(ConfigurationError):
        sandboxio.doctor(["local"], timeout=value)
    if value != "2":
        assert command("doctor", "local", f"--timeout={value}").code == 2


def test_looking_loads_no_sdk_that_it_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, sandboxio; sandboxio.doctor(['docker', 'e2b', 'local'], timeout=30); "
        "print(*sys.modules)"
    )
    environ = {key: value for key, value in os.environ.items() if key != "E2B_API_KEY"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert {"e2b", "docker"} & set(done.stdout.split()) == set()


def test_registry_serves_others_while_one_plugin_is_being_loaded(install: Any) -> None:
    install("sbx-test-slow", GROUP, "slow", "import threading; threading.Event().wait()")
    install("sbx-test-one", GROUP, "one", plugin("one"))
    sandboxio.doctor(["slow"], timeout=0.5)
    assert default_registry().backend("one").name == "one"
