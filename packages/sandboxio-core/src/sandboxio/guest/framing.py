"""Frames of the guest protocol, out of whatever pieces they come in. Does no I/O."""

from __future__ import annotations

from collections.abc import Iterator

from . import program as wire

__all__ = ["SMALL_PAYLOAD", "FrameSplitter"]

SMALL_PAYLOAD = 1 << 12
"""Bytes that a frame of control may have; only names, content and the greeting need more."""

FRAMES_AT_ONCE = 1024
"""Frames that are looked at before other tasks get their turn: tiny ones come 50,000 at a time."""

MAX_PARTS = 256
"""Pieces of a torn payload that are kept apart."""

LARGE = frozenset((wire.HELLO, wire.ENTRIES)) | wire.RAW
"""Frames whose payload may have the protocol's full length."""


class FrameSplitter:
    """Takes a stream of frames apart, however it was cut. Content is copied once."""

    def __init__(self) -> None:
        self.backlog = False
        """Whether there are frames left to look at, with no further data."""
        self._rest = b""
        self._head = (0, 0)
        self._parts: list[bytes | memoryview] = []
        self.missing = 0
        """Bytes that the frame still lacks of which a part has come."""

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Return the type, the id and the payload of each frame that is whole, at most `FRAMES_AT_ONCE`.

        Raises:
            Malformed: A frame is longer than its type may be.
        """
        at = 0
        if self.missing:
            piece = memoryview(data)[: self.missing]
            at = len(piece)
            self.missing -= at
            self._parts.append(piece)
            if self.missing:
                if len(self._parts) > MAX_PARTS:
                    self._parts = [b"".join(self._parts)]
                return
            payload = b"".join(self._parts)
            self._parts.clear()
            yield *self._head, payload
        source = self._rest + data if self._rest else data
        view = memoryview(source)
        size = wire.HEADER.size
        frames = 0
        self.backlog = False
        while len(source) - at >= size:
            if frames == FRAMES_AT_ONCE:
                self.backlog = True
                break
            frames += 1
            length, kind, ident = wire.HEADER.unpack_from(source, at)
            if length > (wire.MAX_PAYLOAD if kind in LARGE else SMALL_PAYLOAD):
                raise wire.Malformed(f"a frame of type {kind} with {length} bytes")
            start, end = at + size, at + size + length
            if len(source) < end:
                if length > SMALL_PAYLOAD:
                    self._head = kind, ident
                    self._parts.append(view[start:])
                    self.missing = end - len(source)
                    at = len(source)
                break
            yield kind, ident, bytes(view[start:end])
            at = end
        self._rest = source[at:]
