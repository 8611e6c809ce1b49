"""What `sandboxio doctor` says of E2B: which deployment it is, and what it says to the key."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import sandboxio
from sandboxio.errors import AuthError
from sandboxio.models import IsolationTier
from sandboxio.spi import Check
from sandboxio_e2b import E2BBackend, _doctor
from sandboxio_testing.e2b import LocalE2B


@pytest.fixture(autouse=True)
def _as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """How fast a busy machine is is not what is tested."""
    monkeypatch.setattr(_doctor, "ANSWER_BOUND", 30.0)


async def found(checks: AsyncIterator[Check]) -> dict[str, Check]:
    return {check.name: check async for check in checks}


async def test_key_that_is_taken_and_a_double_are_said(backend: E2BBackend) -> None:
    checks = await found(backend.diagnose())
    assert checks["account"].status == "ok"
    assert checks["endpoint"].status == "note"
    assert "a double of E2B on this machine" in checks["endpoint"].detail
    assert backend.isolation is IsolationTier.CONTAINER


async def test_key_that_is_refused_fails_without_being_shown(
    backend: E2BBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "e2b_" + "0" * 40
    monkeypatch.setenv("E2B_API_KEY", key)
    checks = await found(backend.diagnose())
    assert checks["account"].status == "failed"
    assert "E2B_API_KEY" in str(checks["account"].hint)
    assert key not in repr(checks)


def test_missing_key_is_one_failure_and_asks_nobody(
    server: LocalE2B, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("E2B_API_KEY")
    (e2b,) = sandboxio.doctor(["e2b"], timeout=30).backends
    failed = [check for check in e2b.checks if check.status == "failed"]
    assert [(check.name, check.detail) for check in failed] == [
        ("credential", "E2B_API_KEY is not set")
    ]
    assert e2b.isolation is IsolationTier.CONTAINER


@pytest.mark.parametrize(
    ("domain", "variables", "detail"),
    [
        (None, {}, "E2B's cloud (from the default)"),
        (None, {"E2B_DOMAIN": "e2b.example"}, "e2b.example (from E2B_DOMAIN)"),
        ("own.example", {"E2B_DOMAIN": "x"}, "own.example (from E2BConfig(domain=...))"),
        (None, {"E2B_API_URL": "https://a.example"}, "https://a.example (from E2B_API_URL)"),
    ],
)
async def test_deployment_is_said_with_its_source(
    domain: str | None, variables: dict[str, str], detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DEBUG", "E2B_DOMAIN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    checks = await found(E2BBackend(domain=domain).diagnose())
    assert checks["endpoint"] == Check.passed("endpoint", detail)
    assert "account" not in checks


async def test_e2b_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import anyio

    async def never() -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(_doctor, "ANSWER_BOUND", 0.1)
    account = (await found(_doctor.diagnose(None, False, never)))["account"]
    assert (account.status, "0.1 s" in account.detail) == ("failed", True)

    async def refuses() -> None:
        raise AuthError("refused", hint="take another")

    account = (await found(_doctor.diagnose(None, False, refuses)))["account"]
    assert (account.status, account.hint) == ("failed", "take another")
