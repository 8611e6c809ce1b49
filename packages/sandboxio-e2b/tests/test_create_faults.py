"""What can go wrong with a create: each has its own error, the SDK's as the cause, and no sandbox."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import pytest

from sandboxio import (
    AuthError,
    ConfigurationError,
    CreateTimeout,
    CreationError,
    RateLimitError,
    SandboxError,
    SandboxUnreachable,
)
from sandboxio_e2b import E2BBackend
from sandboxio_testing.e2b import Fault, LocalE2B

CREATE = "POST /v2/sandboxes"
BOUND = 30.0

STATUSES: list[tuple[int, type[SandboxError], bool | None]] = [
    (400, CreationError, False),
    (401, AuthError, False),
    (403, AuthError, False),
    (404, ConfigurationError, False),
    (409, CreationError, False),
    (422, CreationError, False),
    (429, RateLimitError, True),
    (500, SandboxUnreachable, True),
    (502, SandboxUnreachable, True),
    (503, CreationError, True),
    (504, SandboxUnreachable, True),
    (524, SandboxUnreachable, True),
]

BODIES = {
    "json": None,
    "html": b"<html><body>Service Unavailable</body></html>",
    "empty": b"",
    "other": b'{"detail": "something else"}',
}


async def failure(backend: E2BBackend, timeout: float = BOUND) -> SandboxError:
    with anyio.fail_after(BOUND), pytest.raises(SandboxError) as caught:
        await backend.create(timeout=timeout)
    assert type(caught.value.__cause__) is not None
    return caught.value


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("status", "kind", "retryable"), STATUSES)
async def test_status_becomes_its_error(
    backend: E2BBackend,
    server: LocalE2B,
    status: int,
    kind: type[SandboxError],
    retryable: bool | None,
    body: str,
) -> None:
    server.add(Fault(route=CREATE, status=status, body=BODIES[body], times=9))
    error = await failure(backend)
    assert type(error) is kind, repr(error)
    assert error.retryable is retryable
    assert error.__cause__ is not None
    asked = [
        seen for seen in server.seen() if (seen.method, seen.path) == ("POST", "/v2/sandboxes")
    ]
    assert len(asked[-1].headers["idempotency-key"]) == 36


async def test_refused_key_names_its_variable(backend: E2BBackend, server: LocalE2B) -> None:
    server.add(Fault(route=CREATE, status=401))
    error = await failure(backend)
    assert "E2B_API_KEY" in error.message
    assert server.api_key not in str(error)


async def test_missing_key_sends_nothing(
    backend: E2BBackend, server: LocalE2B, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("E2B_API_KEY")
    before = len(server.seen())
    with pytest.raises(AuthError, match="E2B_API_KEY"):
        await backend.create()
    assert len(server.seen()) == before


@pytest.mark.parametrize("given", ["seconds", "date", "none"])
async def test_throttling_tells_how_long_to_wait(
    backend: E2BBackend, server: LocalE2B, given: str
) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=100)
    headers = {
        "seconds": {"Retry-After": "7"},
        "date": {"Retry-After": format_datetime(moment, usegmt=True)},
        "none": {},
    }[given]
    server.add(Fault(route=CREATE, status=429, headers=headers))
    error = await failure(backend)
    assert isinstance(error, RateLimitError)
    if given == "seconds":
        assert error.retry_after == 7
    elif given == "date":
        assert error.retry_after is not None
        assert 0 < error.retry_after <= 101
    else:
        assert error.retry_after is None


@pytest.mark.parametrize("drop", ["before", "head", "body"])
async def test_connection_lost_during_create_leaves_nothing(
    backend: E2BBackend, server: LocalE2B, drop: Any
) -> None:
    server.add(Fault(route=CREATE, drop=drop, cut_after=20))
    assert isinstance(await failure(backend), SandboxUnreachable)
    assert not server.sandboxes


async def test_connection_lost_after_the_whole_answer_is_none_of_our_business(
    backend: E2BBackend, server: LocalE2B
) -> None:
    server.add(Fault(route=CREATE, drop="after"))
    async with await backend.create(timeout=BOUND) as sandbox:
        assert (await sandbox.run(["echo", "well"])).stdout == "well\n"


async def test_nobody_listens(backend: E2BBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E2B_API_URL", "http://127.0.0.1:9")
    assert isinstance(await failure(backend), SandboxUnreachable)


async def test_silence_is_a_create_timeout(backend: E2BBackend, server: LocalE2B) -> None:
    server.add(Fault(route=CREATE, silent=True))
    assert isinstance(await failure(backend, timeout=0.5), CreateTimeout)


async def test_slow_create_that_nobody_waits_for_is_undone(
    backend: E2BBackend, server: LocalE2B
) -> None:
    server.add(Fault(route=CREATE, delay=1))
    assert isinstance(await failure(backend, timeout=0.5), CreateTimeout)
    assert not server.sandboxes


@pytest.mark.parametrize("route", ["GET /sandboxes/*"])
async def test_create_that_cannot_be_read_back_leaves_nothing(
    backend: E2BBackend, server: LocalE2B, route: str
) -> None:
    server.add(Fault(route=route, status=500))
    assert isinstance(await failure(backend), SandboxUnreachable)
    assert not server.sandboxes
