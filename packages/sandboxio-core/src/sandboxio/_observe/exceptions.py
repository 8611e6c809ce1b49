"""Masking of secrets in errors: in all that is printed of one, and of those that caused it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ..errors import SandboxError
from .redaction import Redactor

__all__ = ["redact_error"]

LONGEST_CHAIN = 50
"""Causes of causes that are looked at; a traceback of more tells nobody anything."""


def redact_error(error: BaseException, redactor: Redactor) -> None:
    """Mask secrets in what a traceback prints of `error`, of its causes and of their notes.

    A cause whose text cannot be masked in place is replaced by one that names its class.
    """
    if not redactor.patterns.longest:
        return
    for link in _chain(error):
        _mask(link, redactor)
        for name in ("__cause__", "__context__"):
            beyond: BaseException | None = getattr(link, name)
            if beyond is not None and not _is_masked(beyond, redactor):
                setattr(link, name, _stand_in(beyond, redactor))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it; the causes as they are when their turn comes."""
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting and len(seen) < LONGEST_CHAIN:
        link = waiting.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [cause for cause in (link.__cause__, link.__context__) if cause is not None]
        if isinstance(link, BaseExceptionGroup):
            waiting += cast("tuple[BaseException, ...]", link.exceptions)


def _mask(error: BaseException, redactor: Redactor) -> None:
    if isinstance(error, SandboxError):
        error.message = redactor.text(error.message)
        error.hint = redactor.text(error.hint)
        path: object = getattr(error, "path", None)
        if isinstance(path, str):
            setattr(error, "path", redactor.text(path))  # noqa: B010 - only some classes have it
    if any(isinstance(argument, str) for argument in error.args):
        masked = tuple(
            redactor.text(argument) if isinstance(argument, str) else argument
            for argument in error.args
        )
        if masked != error.args:
            error.args = masked
    notes: list[str] | None = getattr(error, "__notes__", None)
    if notes:
        notes[:] = [redactor.text(note) for note in notes]


def _is_masked(error: BaseException, redactor: Redactor) -> bool:
    """Mask an error in place, and say whether that was enough."""
    _mask(error, redactor)
    return not (redactor.finds(str(error)) or redactor.finds(repr(error)))


def _stand_in(error: BaseException, redactor: Redactor) -> BaseException:
    text = redactor.text(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
    stand_in = RuntimeError(text)
    stand_in.__cause__, stand_in.__context__ = error.__cause__, error.__context__
    stand_in.__suppress_context__ = error.__suppress_context__
    return stand_in.with_traceback(error.__traceback__)
