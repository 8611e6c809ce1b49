"""A streamed command, for callers without an event loop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import TracebackType

from ..models import ExecResult, OutputChunk
from ..protocols import Process
from .sync_portal import Portal

__all__ = ["SyncProcess"]


class SyncProcess:
    """A running command, from `Sandbox.stream`; the same as `Process`, without ``async``.

    Every chunk is handed over from the thread of the sandbox, which costs about as much as a call.

    Example:
        >>> def show(sandbox):
        ...     with sandbox.stream(["seq", "3"]) as process:
        ...         for chunk in process:
        ...             print(chunk.data.decode(), end="")
        ...         return process.wait()
    """

    def __init__(self, portal: Portal, process: Process) -> None:
        self._portal = portal
        self._process = process

    def __repr__(self) -> str:
        return repr(self._process)

    def __enter__(self) -> SyncProcess:
        self._portal.call(self._process.__aenter__)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The end of the sandbox was the end of this command as well.
        if not self._portal.closed:
            self._portal.call(partial(self._process.__aexit__, exc_type, exc, traceback))

    def __iter__(self) -> Iterator[OutputChunk]:
        chunks = self._process.__aiter__()

        async def following() -> OutputChunk | None:
            return await anext(chunks, None)

        while (chunk := self._portal.call(following)) is not None:
            yield chunk

    def wait(self) -> ExecResult:
        """Discard output that was not consumed, and return how the command ended."""
        return self._portal.call(self._process.wait)

    def kill(self) -> None:
        """End the command and every process that it started. May be called again."""
        self._portal.call(self._process.kill)

    def send(self, data: bytes | str) -> None:
        """Write to the command's stdin, as fast as it reads. Needs ``Capability.STDIN``."""
        self._portal.call(partial(self._process.send, data))

    def send_eof(self) -> None:
        """Close the command's stdin. May be called again."""
        self._portal.call(self._process.send_eof)

    def signal(self, signum: int) -> None:
        """Send a signal to the command's process group. Needs ``Capability.STDIN``."""
        self._portal.call(partial(self._process.signal, signum))

    @property
    def returncode(self) -> int | None:
        """The exit code, or ``None`` while the command runs."""
        return self._process.returncode
