"""The end of a container, for those whom its streams do not tell of it."""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from sandboxio.errors import ProviderError, SandboxError

if TYPE_CHECKING:
    from ._client import Engine

__all__ = ["Ending"]


class Ending:
    """Tells whether a container has ended.

    The engine says it over a connection that is for this alone. Once that is open, looking at it
    costs one system call.
    """

    def __init__(self, engine: Engine, ref: str) -> None:
        self._engine = engine
        self._ref = ref
        self._socket: socket.socket | None = None
        self._opening = False
        self._come = False

    @property
    def come(self) -> bool:
        """Whether it has ended, or is no longer watched; false as long as it is not watched."""
        if self._socket is not None and not self._come:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN | select.POLLHUP)
            self._come = bool(poll.poll(0))
        return self._come

    async def watch(self) -> None:
        """Open the connection.

        Raises:
            SandboxError: The engine refuses, and has the container.
        """
        if self._come or self._socket is not None or self._opening:
            return
        self._opening = True
        try:
            sock, ended = await self._engine.ending(self._ref)
        except ProviderError:
            if await self._engine.inspect(self._ref) is not None:
                raise
            self._come = True
            return
        finally:
            self._opening = False
        if ended or self._come:
            sock.close()
            self._come = True
        else:
            self._socket = sock

    async def has_come(self) -> bool:
        """Whether it has ended, watching it from now on; false if the engine does not say."""
        with suppress(SandboxError):
            await self.watch()
        return self.come

    def close(self) -> None:
        """Stop watching."""
        self._come = True
        if self._socket is not None:
            self._socket.close()
