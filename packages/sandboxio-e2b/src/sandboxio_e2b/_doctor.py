"""What `sandboxio doctor` is told about E2B: which deployment, and whether it takes the key."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio

from sandboxio.errors import SandboxError
from sandboxio.spi import Check

__all__ = ["diagnose"]

ANSWER_BOUND = 1.6
"""Seconds for E2B to list no sandboxes, the import of its SDK included."""


async def diagnose(
    domain: str | None, double: bool, ask: Callable[[], Awaitable[object]]
) -> AsyncIterator[Check]:
    """Yield where E2B is, and then what it says to the key.

    Args:
        domain: As in `E2BConfig`.
        double: Whether that is a double of E2B on this machine.
        ask: Makes a call that costs nothing, and raises what E2B refuses it with.
    """
    yield _deployment(domain, double)
    if not os.environ.get("E2B_API_KEY"):
        return  # doctor itself says which credential is missing
    try:
        answered = await _answers(ask)
    except SandboxError as error:
        yield Check.failed("account", error.message, error.hint)
        return
    if answered:
        yield Check.passed("account", "E2B answers, and takes the key in E2B_API_KEY")
        return
    yield Check.failed(
        "account",
        f"E2B did not answer within {ANSWER_BOUND:g} s",
        "Check the network, E2B_DOMAIN, and https://status.e2b.dev",
    )


async def _answers(ask: Callable[[], Awaitable[object]]) -> bool:
    with anyio.move_on_after(ANSWER_BOUND):
        await ask()
        return True
    return False


def _deployment(domain: str | None, double: bool) -> Check:
    sources = (
        (domain, "E2BConfig(domain=...)"),
        (os.environ.get("E2B_API_URL"), "E2B_API_URL"),
        (os.environ.get("E2B_DOMAIN"), "E2B_DOMAIN"),
        ("E2B's cloud", "the default"),
    )
    address, source = next((address, source) for address, source in sources if address)
    if double:
        return Check.note(
            "endpoint",
            f"{address} (from {source}): a double of E2B on this machine, which isolates less",
            "unset E2B_DEBUG E2B_API_URL E2B_SANDBOX_URL",
        )
    return Check.passed("endpoint", f"{address} (from {source})")
