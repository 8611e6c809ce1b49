"""The output of one call, bounded."""

from __future__ import annotations

from ..models import OutputChunk

__all__ = ["CollectedOutput", "decode"]

EXCERPT = 64 * 1024
"""Bytes of the head, and of the tail, that are kept of output beyond the bound."""


def decode(data: bytes | bytearray) -> str:
    r"""Decode output: UTF-8, and ``\xNN`` for what is not."""
    return data.decode("utf-8", "backslashreplace")


class CollectedOutput:
    """What a command wrote to stdout and stderr, up to a bound for both together."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._data = {"stdout": bytearray(), "stderr": bytearray()}
        self._cut: set[str] = set()
        self.size = 0

    @property
    def exceeded(self) -> bool:
        """Whether more came than may be held."""
        return self.size > self._bound

    def add(self, chunk: OutputChunk) -> None:
        """Keep a chunk; beyond the bound, only the head and the tail stay."""
        data = self._data[chunk.stream]
        data += chunk.data
        self.size += len(chunk.data)
        if self.exceeded and len(data) > 3 * EXCERPT:
            del data[EXCERPT:-EXCERPT]
            self._cut.add(chunk.stream)

    def text(self, stream: str) -> str:
        """Return a stream's text; beyond the bound, its head and its tail."""
        data = self._data[stream]
        if stream not in self._cut:
            return decode(data)
        return f"{decode(data[:EXCERPT])}\n[... output left out ...]\n{decode(data[-EXCERPT:])}"
