"""The host's own credentials, kept out of whatever E2B and its SDK say.

The engine masks what a sandbox was given. What this host shows to E2B, its key and the tokens that
E2B gave out for a sandbox, only this backend knows, and an answer may well quote them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import cast
from urllib.parse import quote

__all__ = ["chain", "hide"]

MASK = "***"

VARIABLES = ("E2B_API_KEY", "E2B_ACCESS_TOKEN")

FORM = re.compile(r"(?:sk_)?e2b_\w{16,}")
"""What keys look like; the one that a call used need not be that of the environment any more."""

SHORTEST = 4
"""Characters from which on a value is masked; less would mangle text, and hides nothing."""


def hide(error: BaseException, tokens: Iterable[str | None] = ()) -> BaseException:
    """Mask credentials in an exception and in all that it came from, and return it.

    It is masked in place. One whose text cannot be changed is replaced by one that names its class.

    Args:
        error: As the SDK raised it.
        tokens: What E2B gave out for sandboxes that are in use.
    """
    values = [os.environ.get(name) for name in VARIABLES]
    known = {value for value in (*values, *tokens) if value is not None and len(value) >= SHORTEST}
    forms = sorted(known | {quote(value, safe="") for value in known}, key=len, reverse=True)
    for link in list(chain(error)):
        _mask(link, forms)
        for name in ("__cause__", "__context__"):
            beyond: BaseException | None = getattr(link, name)
            if beyond is not None and not _is_clean(beyond, forms):
                setattr(link, name, _stand_in(beyond, forms))
    return error if _is_clean(error, forms) else _stand_in(error, forms)


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and all that it came from."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        item = todo.pop()
        if item is not None and id(item) not in seen:
            seen.add(id(item))
            yield item
            todo += [item.__context__, item.__cause__]


def _masked(text: str, forms: list[str]) -> str:
    for form in forms:
        text = text.replace(form, MASK)
    return FORM.sub(MASK, text)


def _mask(error: BaseException, forms: list[str]) -> None:
    error.args = tuple(_of(argument, forms) for argument in error.args)
    for name, value in list(cast("dict[str, object]", vars(error)).items()):
        masked = _of(value, forms)
        if masked is not value:
            setattr(error, name, masked)


def _of(value: object, forms: list[str]) -> object:
    """Return a value with its text masked."""
    if isinstance(value, str):
        return _masked(value, forms)
    if isinstance(value, bytes):
        return _masked(value.decode("latin-1"), forms).encode("latin-1")
    if isinstance(value, list):
        return [_of(item, forms) for item in cast("list[object]", value)]  # its notes
    return value


def _is_clean(error: BaseException, forms: list[str]) -> bool:
    _mask(error, forms)
    text = f"{error} {error!r}"
    return _masked(text, forms) == text


def _stand_in(error: BaseException, forms: list[str]) -> BaseException:
    kind = type(error)
    stand_in = RuntimeError(_masked(f"{kind.__module__}.{kind.__qualname__}: {error}", forms))
    stand_in.__cause__, stand_in.__context__ = error.__cause__, error.__context__
    stand_in.__suppress_context__ = error.__suppress_context__
    return stand_in.with_traceback(error.__traceback__)
