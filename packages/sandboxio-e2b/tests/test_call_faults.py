"""What can go wrong with calls that make no sandbox: they fail as what they are, and name the cause."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from sandboxio import (
    AuthError,
    ConnectError,
    ProviderError,
    RateLimitError,
    SandboxError,
    SandboxUnreachable,
)
from sandboxio.protocols import AsyncSandbox
from sandboxio_e2b import E2BBackend
from sandboxio_testing.e2b import Fault, LocalE2B

BOUND = 60.0

Call = Callable[[E2BBackend, AsyncSandbox], Awaitable[object]]

MANAGEMENT: dict[str, tuple[str, Call]] = {
    "look": ("GET /sandboxes/*", lambda backend, sandbox: backend.connect(sandbox.id)),
    "connect": (
        "POST /v2/sandboxes/*/connect",
        lambda backend, sandbox: backend.connect(sandbox.id),
    ),
    "list": ("GET /v2/sandboxes", lambda backend, _: backend.list_managed()),
    "health": ("GET /v2/sandboxes", lambda backend, _: backend.health()),
    "destroy": ("DELETE /sandboxes/*", lambda backend, sandbox: backend.kill_managed(sandbox.id)),
}

CODE: dict[str, tuple[str, Call]] = {
    "context": ("POST /contexts", lambda _, sandbox: sandbox.run_code("1", context_id="a")),
    "execute": ("POST /execute", lambda _, sandbox: sandbox.run_code("1", context_id="a")),
}

STATUSES: list[tuple[int, type[SandboxError] | None, bool | None]] = [
    (400, None, False),
    (401, AuthError, False),
    (403, AuthError, False),
    (404, None, False),
    (409, None, False),
    (422, None, False),
    (429, RateLimitError, True),
    (500, SandboxUnreachable, True),
    (502, SandboxUnreachable, True),
    (503, SandboxUnreachable, True),
    (504, SandboxUnreachable, True),
    (524, SandboxUnreachable, True),
]
"""Each with its error; `None` for a refusal, which is what the call is for."""

BODIES = (None, b"<html><body>Oops</body></html>", b"", b'{"detail": "something else"}')

DROPS: tuple[dict[str, Any], ...] = (
    {"drop": "before"},
    {"drop": "head"},
    {"drop": "body", "cut_after": 1},
)


async def failure(call: Awaitable[object]) -> SandboxError:
    with pytest.raises(SandboxError) as caught:
        await call
    assert caught.value.__cause__ is not None
    return caught.value


@pytest.mark.parametrize("what", MANAGEMENT)
async def test_each_failure_of_a_management_call_has_its_error(
    backend: E2BBackend, server: LocalE2B, what: str
) -> None:
    route, call = MANAGEMENT[what]
    with anyio.fail_after(BOUND):
        async with await backend.create(timeout=300) as sandbox:
            for status, kind, retryable in STATUSES:
                if what == "look" and status in (400, 404):
                    continue  # those say that there is no sandbox, which is an answer
                if what in ("connect", "destroy") and status == 404:
                    continue
                for body in BODIES:
                    headers = {"Retry-After": "7"} if status == 429 else {}
                    server.add(Fault(route=route, status=status, body=body, headers=headers))
                    error = await failure(call(backend, sandbox))
                    assert type(error) is (kind or ConnectError), (status, body, error)
                    assert error.retryable is retryable, (status, body, error)
                    if isinstance(error, RateLimitError):
                        assert error.retry_after == 7
            for drop in DROPS:
                server.add(Fault(route=route, **drop, times=2))
                if what == "destroy" and drop["drop"] == "body":
                    break  # an answer without a body
                assert type(await failure(call(backend, sandbox))) is SandboxUnreachable, drop
            server.faults.clear()


@pytest.mark.parametrize("drop", DROPS, ids=str)
async def test_what_may_be_asked_twice_is(
    backend: E2BBackend, server: LocalE2B, drop: dict[str, Any]
) -> None:
    """A connection that has died with another sandbox is no reason to call this one unreachable."""
    with anyio.fail_after(BOUND):
        server.add(Fault(route="GET /sandboxes/*", **drop))
        sandbox = await backend.create(timeout=300)
        server.add(Fault(route="GET /v2/sandboxes", **drop))
        assert [item.sandbox_id for item in await backend.list_managed()] == [sandbox.id]
        server.add(Fault(route="DELETE /sandboxes/*", **drop))
        assert await backend.kill_managed(sandbox.id)
        assert not server.sandboxes
        server.faults.clear()


@pytest.mark.parametrize("what", CODE)
async def test_each_failure_of_the_interpreter_has_its_error(
    backend: E2BBackend, server: LocalE2B, what: str
) -> None:
    """And none of them is taken for what the code did."""
    route, call = CODE[what]
    with anyio.fail_after(BOUND):
        async with await backend.create(timeout=300) as sandbox:
            for status, kind, retryable in STATUSES:
                if what == "execute" and status != 404:
                    continue  # each costs an interpreter
                server.add(Fault(route=route, status=status, body=b"Oops"))
                error = await failure(call(backend, sandbox))
                assert type(error) is (kind or ProviderError), (status, error)
                assert error.retryable is retryable, (status, error)
            server.add(Fault(route=route, drop="before"))
            assert type(await failure(call(backend, sandbox))) is SandboxUnreachable
            server.faults.clear()
            assert (await sandbox.run_code("print(1)", context_id="a")).stdout == "1\n"
