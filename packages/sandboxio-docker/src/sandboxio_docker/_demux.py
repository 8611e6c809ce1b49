"""The engine's frames around the output of a container without a terminal."""

from __future__ import annotations

import struct
from typing import Literal

__all__ = ["BadFrame", "Demultiplexer"]

HEADER = struct.Struct(">II")

Stream = Literal["stdout", "stderr"]

STREAMS: dict[int, Stream] = {
    0: "stdout",
    1 << 24: "stdout",
    2 << 24: "stderr",
    3 << 24: "stderr",
}
"""By the number and the three zero bytes behind it. 0 is stdin, which nothing is sent on; 3 is the engine's own complaint."""


class BadFrame(ValueError):
    """Bytes that are not the engine's framing."""


class Demultiplexer:
    """Takes a stream of frames apart, however it was cut. Does no I/O.

    Each frame: the stream's number, three zero bytes, the length as 32 bits big endian, the data.
    A frame's data is handed out as it arrives, so its length costs no memory.
    """

    def __init__(self) -> None:
        self._header = b""
        self._stream: Stream = "stdout"
        self._left = 0

    def feed(self, data: bytes) -> list[tuple[Stream, memoryview]]:
        """Return the pieces of output in `data`, in order; none of them is empty.

        Raises:
            BadFrame: It is not the engine's framing.
        """
        if self._header:
            data = self._header + data
            self._header = b""
        view, size = memoryview(data), len(data)
        pieces: list[tuple[Stream, memoryview]] = []
        at = 0
        while at < size:
            if not self._left:
                if size - at < HEADER.size:
                    self._header = data[at:]
                    break
                word, self._left = HEADER.unpack_from(data, at)
                stream = STREAMS.get(word)
                if stream is None:
                    raise BadFrame("the engine's stream has a frame of no known kind")
                self._stream = stream
                at += HEADER.size
            end = min(at + self._left, size)
            if end > at:
                pieces.append((self._stream, view[at:end]))
                self._left -= end - at
                at = end
        return pieces
