"""The boundary between the engine and a driver: only sandboxio's errors come through it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from .._observe.exceptions import redact_error
from .._observe.redaction import Redactor
from ..errors import ProviderError, SandboxError, SandboxGone
from ..spi import Clock

__all__ = ["boundary", "told_apart"]

ALIVE_BOUND = 2.0
"""Seconds to ask whether a sandbox still lives, once something has failed already."""


@contextmanager
def boundary(
    what: str,
    redactor: Redactor,
    wrap: Callable[[str], SandboxError] = ProviderError,
) -> Generator[None, None, None]:
    """Turn whatever a driver raises into an error of sandboxio, without secrets.

    Cancellation is not an ``Exception`` and passes.
    """
    try:
        yield
    except SandboxError as error:
        redact_error(error, redactor)
        raise
    except Exception as error:  # noqa: BLE001 - it is raised again, as what it is to a caller
        names = type(error).__name__
        wrapped = wrap(redactor.text(f"{what} failed: {names}: {error}")[:2000])
        wrapped.__cause__ = error
        redact_error(wrapped, redactor)
        raise wrapped from wrapped.__cause__


async def told_apart(
    error: SandboxError, alive: Callable[[], Awaitable[bool]], clock: Clock
) -> SandboxError:
    """Return `SandboxGone` instead of a provider's error if the sandbox does not exist any more."""
    if not isinstance(error, ProviderError):
        return error
    lives = True
    with clock.move_on_after(ALIVE_BOUND):
        try:
            lives = await alive()
        except Exception:  # noqa: BLE001 - whatever the driver raises
            return error  # whether it lives could not be learned; the first error says more
    if lives:
        return error
    gone = SandboxGone(f"The sandbox no longer exists. {error.message}")
    gone.__cause__ = error.__cause__
    return gone
