"""The engine's frames around the output of a container without a terminal."""

from __future__ import annotations

from typing import Literal

__all__ = ["BadFrame", "Demultiplexer"]

HEADER_SIZE = 8

Stream = Literal["stdout", "stderr"]

STREAMS: dict[int, Stream] = {0: "stdout", 1: "stdout", 2: "stderr", 3: "stderr"}
"""0 is stdin, which nothing is sent on; 3 is the engine's own complaint."""


class BadFrame(ValueError):
    """Bytes that are not the engine's framing."""


class Demultiplexer:
    """Takes a stream of frames apart, however it was cut. Does no I/O.

    Each frame: the stream's number, three zero bytes, the length as 32 bits big endian, the data.
    A frame's data is handed out as it arrives, so its length costs no memory.
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._stream: Stream = "stdout"
        self._left = 0

    def feed(self, data: bytes | memoryview) -> list[tuple[Stream, memoryview]]:
        """Return the pieces of output in `data`, in order; none of them is empty.

        Raises:
            BadFrame: It is not the engine's framing.
        """
        view = memoryview(data)
        pieces: list[tuple[Stream, memoryview]] = []
        at = 0
        while at < len(view):
            if self._left:
                piece = view[at : at + self._left]
                self._left -= len(piece)
                at += len(piece)
                pieces.append((self._stream, piece))
                continue
            missing = HEADER_SIZE - len(self._header)
            self._header += view[at : at + missing]
            at += missing
            if len(self._header) == HEADER_SIZE:
                self._begin()
        return pieces

    def _begin(self) -> None:
        stream = STREAMS.get(self._header[0])
        if stream is None or any(self._header[1:4]):
            raise BadFrame("the engine's stream has a frame of no known kind")
        self._stream = stream
        self._left = int.from_bytes(self._header[4:], "big")
        self._header.clear()
