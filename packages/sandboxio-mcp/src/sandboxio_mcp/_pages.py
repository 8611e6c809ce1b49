"""What of a large result did not fit into it, kept on the host until the model asks for it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from sandboxio.errors import FileSystemError

__all__ = ["PAGE_BYTES", "PAGE_CHARACTERS", "Page", "Pages"]

PAGE_CHARACTERS = 32_000
"""Characters of text in one result: about 8000 tokens, which is what clients accept."""

PAGE_BYTES = 384 * 1024
"""Bytes of binary data in one result. As base64 in JSON that is half a MiB, and the official client
refuses a message of more than one."""

MOST_KEPT = 8
"""Results kept per sandbox; the oldest goes first."""

MOST_KEPT_SIZE = 96 * 1024 * 1024
"""Characters or bytes kept per sandbox: one result of the engine's own bound, and then some."""


@dataclass(frozen=True)
class Page:
    """A part of a text, or of binary data.

    Attributes:
        data: The part.
        number: Counted from 1.
        of: How many there are.
        handle: What the others are asked for by; ``None`` where this is all.
        mime_type: What the whole is.
        uri: Where it came from, or ``None`` for output.
    """

    data: str | bytes
    number: int
    of: int
    handle: str | None
    mime_type: str
    uri: str | None


@dataclass(frozen=True)
class _Kept:
    data: str | bytes
    mime_type: str
    uri: str | None

    def page(self, number: int, handle: str | None) -> Page:
        size = PAGE_CHARACTERS if isinstance(self.data, str) else PAGE_BYTES
        of = max(1, -(-len(self.data) // size))
        if not 1 <= number <= of:
            raise FileSystemError(
                f"There is no page {number}.", hint=f"The pages are 1 to {of}.", retryable=False
            )
        part = self.data[(number - 1) * size : number * size]
        return Page(part, number, of, handle, self.mime_type, self.uri)


class Pages:
    """Large results by handle; bounded, so that no model fills the host's memory."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def first(
        self, data: str | bytes, *, mime_type: str = "text/plain", uri: str | None = None
    ) -> Page:
        """Return the first page, and keep the rest if there is one."""
        kept = _Kept(data, mime_type, uri)
        page = kept.page(1, None)
        if page.of == 1:
            return page
        handle = secrets.token_hex(4)
        self._kept[handle] = kept
        while len(self._kept) > MOST_KEPT or self._size() > MOST_KEPT_SIZE:
            del self._kept[next(iter(self._kept))]
        return kept.page(1, handle)

    def more(self, handle: str, number: int) -> Page:
        """Return another page.

        Raises:
            FileSystemError: The handle is not known (any more), or has no such page.
        """
        kept = self._kept.get(handle)
        if kept is None:
            raise FileSystemError(
                "There is no result with that handle; only the last few large ones are kept.",
                hint="Run it again, with its output in a file, and read parts of that file.",
                retryable=False,
            )
        return kept.page(number, handle)

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def _size(self) -> int:
        return sum(len(kept.data) for kept in self._kept.values())
