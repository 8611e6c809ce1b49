"""Masking of text that arrives in pieces: a secret that is cut over two of them is masked as well."""

from __future__ import annotations

from .redaction import Redactor

__all__ = ["StreamRedactor"]


class StreamRedactor:
    """Masks a stream; what it hands out, put together, is what `Redactor.text` makes of the whole.

    It holds back no more than what may be the beginning of a secret.

    Example:
        >>> stream = StreamRedactor(Redactor(["hunter2!"]))
        >>> stream.feed("it is hunt"), stream.feed("er2!, you know"), stream.close()
        ('it is ', '***, you know', '')
    """

    def __init__(self, redactor: Redactor) -> None:
        # The patterns of now: what is learned in the middle of a text may have passed in part.
        self._patterns = redactor.patterns
        self._initials = {form[0] for form in self._patterns.anywhere | self._patterns.alone}
        self._held = ""
        # One character before what is held, for patterns that look back at it.
        self._before = ""
        # So many characters of what is held are covered by a mask that was handed out already.
        self._masked = 0

    def feed(self, text: str) -> str:
        """Take the next piece in, and return what can be said of the text so far."""
        held = self._held + text
        return self._release(held, len(held) - self._undecided(held))

    def close(self) -> str:
        """Return the rest."""
        return self._release(self._held, len(self._held))

    def _undecided(self, held: str) -> int:
        """Return how many characters at the end may belong to a secret that is not complete."""
        patterns = self._patterns
        for size in range(min(len(held), patterns.longest), 0, -1):
            end = held[-size:]
            if end[0] not in self._initials:
                continue
            if any(len(form) > size and form.startswith(end) for form in patterns.anywhere):
                return size
            # Whether it stands alone is decided by the character that follows it.
            if any(form.startswith(end) for form in patterns.alone):
                return size
        return 0

    def _release(self, held: str, upto: int) -> str:
        patterns = self._patterns
        context = self._before + held
        offset = len(self._before)
        pieces: list[str] = []
        at = beyond = 0
        # What begins in the part that is not decided yet is looked for when that is.
        for begin, end in patterns.spans(context, offset, offset + upto, offset + self._masked):
            start, stop = begin - offset, end - offset
            # A range that goes on from before has its mask already.
            if start > 0 or not self._masked:
                pieces += (held[at:start], patterns.mask)
            at = min(stop, upto)
            beyond = max(0, stop - upto)
        pieces.append(held[at:upto])
        self._masked = beyond
        self._before = (self._before + held[:upto])[-1:]
        self._held = held[upto:]
        return "".join(pieces)
