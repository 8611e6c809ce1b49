"""What `sandboxio doctor` says of this host, and of hosts that lack something."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandboxio.errors import CreationError
from sandboxio.spi import Check
from sandboxio_local import LocalBackend, _bwrap, _cgroup, _doctor, _errors, _health, _plan


@pytest.fixture(autouse=True)
def _as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """How fast a busy machine is is not what is tested."""
    monkeypatch.setattr(_health, "PROBE_BOUND", 30.0)


async def found(checks: AsyncIterator[Check]) -> dict[str, Check]:
    result: dict[str, Check] = {}
    async for check in checks:
        assert check.name not in result
        result[check.name] = check
    return result


async def test_this_host_is_described_and_makes_a_sandbox() -> None:
    checks = await found(LocalBackend().diagnose())
    assert [check for check in checks.values() if check.status == "failed"] == []
    assert next(iter(checks)) == "caps"
    assert list(checks)[-1] == "sandbox"
    assert {"bubblewrap", "user namespaces", "apparmor", "cgroup", "egress"} <= checks.keys()
    assert _bwrap.find().version_text in checks["bubblewrap"].detail


async def test_host_without_bubblewrap_is_asked_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> None:
        raise CreationError("none found", hint="apt-get install bubblewrap")

    monkeypatch.setattr(_bwrap, "find", nothing)
    checks = await found(_doctor.diagnose())
    assert list(checks) == ["machine", "bubblewrap"]
    assert checks["bubblewrap"].hint == "apt-get install bubblewrap"


async def test_other_system_is_asked_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_linux() -> None:
        raise CreationError("not Linux", hint="Use the docker backend.")

    monkeypatch.setattr(_plan, "check_machine", no_linux)
    checks = await found(_doctor.diagnose())
    assert list(checks) == ["machine"]


async def test_host_without_control_groups_says_how_caps_are_kept_and_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_cgroup, "find", lambda: None)
    check = (await found(_doctor.diagnose()))["cgroup"]
    assert check.status == "note"
    assert "each process alone" in check.detail
    assert "systemd-run --user --scope -p Delegate=yes" in str(check.hint)


async def test_namespaces_that_are_off_come_with_the_command_that_switches_them_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && { echo bubblewrap 0.11.0; exit; }\n'
        "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n"
    )
    broken.chmod(0o755)
    off = ("User namespaces are switched off on this host.", "sysctl -w a.b=1")
    monkeypatch.setattr(_errors, "namespaces_off", lambda: off)
    monkeypatch.setattr(_bwrap, "find", lambda: _bwrap.Bubblewrap(str(broken), None, (0, 11, 0)))
    checks = await found(_doctor.diagnose())
    assert checks["user namespaces"].status == "note"
    assert (checks["sandbox"].status, checks["sandbox"].hint) == ("failed", "sysctl -w a.b=1")


async def test_missing_helper_of_egress_is_a_note_with_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sandboxio_local import _egress

    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(_egress, "_check_tun", lambda: None)
    check = (await found(_doctor.diagnose()))["egress"]
    assert check.status == "note"
    assert "apt-get install passt" in str(check.hint)
