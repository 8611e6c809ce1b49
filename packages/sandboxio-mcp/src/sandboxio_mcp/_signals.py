"""The signals that ask a server to stop."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

__all__ = ["Stopped", "stop_on_signal"]

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class Stopped:
    """Whether a signal ended the block, and which."""

    signum: int | None = None

    @property
    def exit_code(self) -> int:
        """What a shell expects: 128 and the signal, or 0."""
        return 0 if self.signum is None else 128 + self.signum


@asynccontextmanager
async def stop_on_signal(stopped: Stopped) -> AsyncGenerator[None, None]:
    """Cancel the block at the first signal; until it has ended, further ones change nothing.

    So the sandboxes are ended by the block's own teardown, which is bounded.
    """
    with anyio.open_signal_receiver(*SIGNALS) as received:
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                async for signum in received:
                    stopped.signum = int(signum)
                    inner.cancel()
                    return

            group.start_soon(wait)
            with anyio.CancelScope() as inner:
                yield
            group.cancel_scope.cancel()
