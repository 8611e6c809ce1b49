"""uv gets its packages the way that this machine's pip does."""

from __future__ import annotations

import subprocess

import pytest

import uv


@pytest.fixture
def pip_says(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that `pip config list` prints; the machine's own settings are out of the way."""
    lines: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[1:] == ["-m", "pip", "config", "list"]
        return subprocess.CompletedProcess(command, 0, "\n".join(lines), "")

    monkeypatch.setattr(uv.subprocess, "run", run)
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    return lines


def test_index_and_authority_of_pip_are_handed_to_uv(pip_says: list[str]) -> None:
    pip_says += ["global.cert='/etc/ca.pem'", "global.index-url='https://mirror.example/simple'"]
    env = uv.environment()
    assert env["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert env["SSL_CERT_FILE"] == "/etc/ca.pem"


def test_variable_of_pip_wins_over_its_files(pip_says: list[str]) -> None:
    pip_says += [":env:.index-url='https://two.example'", "global.index-url='https://one.example'"]
    assert uv.environment()["UV_DEFAULT_INDEX"] == "https://two.example"


def test_what_uv_was_told_itself_wins(pip_says: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pip_says += ["global.index-url='https://mirror.example/simple'", "global.cert='/etc/ca.pem'"]
    monkeypatch.setenv("UV_INDEX_URL", "https://mine.example")
    monkeypatch.setenv("SSL_CERT_FILE", "/my/ca.pem")
    env = uv.environment()
    assert "UV_DEFAULT_INDEX" not in env
    assert env["SSL_CERT_FILE"] == "/my/ca.pem"


def test_without_settings_nothing_is_added(pip_says: list[str]) -> None:
    assert not uv.environment().keys() & {"UV_DEFAULT_INDEX", "SSL_CERT_FILE"}


def test_another_environment_that_is_active_is_left_alone(
    pip_says: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/elsewhere")
    env = uv.environment()
    assert "VIRTUAL_ENV" not in env
    assert env["UV_PROJECT_ENVIRONMENT"] == str(uv.VENV)
