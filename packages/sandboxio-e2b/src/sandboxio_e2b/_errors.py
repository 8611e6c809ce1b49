"""What E2B's refusals and failures mean in sandboxio's terms: one table, and how to look things up.

Classes are known by name, so this loads no SDK, and one that an SDK does not have yet harms nothing.
Much of what the SDK lets out says less than what came in: a failed response that is not the JSON
it expects becomes a `JSONDecodeError` or a `KeyError`, and no error has the headers. The response
itself is still in the frames of the traceback, so that is where the status is read from.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import cast

from sandboxio.errors import (
    AuthError,
    ConfigurationError,
    ConnectError,
    CreationError,
    DiskFull,
    ProviderError,
    RateLimitError,
    SandboxError,
    SandboxGone,
    SandboxUnreachable,
)
from sandboxio_e2b._credentials import chain

__all__ = ["Answer", "Purpose", "answer_in", "never_sent", "translated"]

MAX_TEXT = 500
"""Characters of E2B's own words that an error repeats; more are left to its cause.

Never a part of them: a secret that is cut in two is not masked any more.
"""

KEY_HINT = "Set E2B_API_KEY to a key of your team; see https://e2b.dev/dashboard?tab=keys"


@dataclass(frozen=True)
class Answer:
    """The HTTP answer that an exception came from."""

    status: int
    headers: Mapping[str, str]

    @property
    def retry_after(self) -> float | None:
        """Seconds that ``Retry-After`` asks to wait, given as a number or as a date."""
        text = next((v for k, v in self.headers.items() if k.lower() == "retry-after"), "").strip()
        if text.isascii() and text.isdigit():
            return float(text)
        try:
            moment = email.utils.parsedate_to_datetime(text)
        except ValueError:
            return None
        return max(0.0, moment.timestamp() - time.time())


def answer_in(error: BaseException) -> Answer | None:
    """Return the HTTP answer that is behind an exception, if one came."""
    for failure in chain(error):
        for frame in reversed(list(frames(failure.__traceback__))):
            for value in frame.values():
                found = as_answer(value)
                if found is not None:
                    return found
    return None


def as_answer(value: object) -> Answer | None:
    """Return an HTTP response that failed as an `Answer`, whichever class it is."""
    if type(value).__module__.partition(".")[0] not in ("httpx", "e2b", "pyqwest"):
        return None
    status, headers = getattr(value, "status_code", None), getattr(value, "headers", None)
    if isinstance(status, int) and status >= 300 and isinstance(headers, Mapping):
        return Answer(
            int(status),
            {str(k): str(v) for k, v in cast("Mapping[object, object]", headers).items()},
        )
    return None


def frames(traceback: TracebackType | None) -> Iterator[dict[str, object]]:
    """Yield the local variables of each frame that an exception came through."""
    while traceback is not None:
        yield traceback.tb_frame.f_locals
        traceback = traceback.tb_next


class Purpose(Enum):
    """What a call was made for, which decides what a refusal of it means."""

    CREATE = CreationError
    MANAGE = ConnectError
    USE = ProviderError


Make = Callable[[str, Answer | None, Purpose], SandboxError]


def _auth(text: str, _answer: Answer | None, _purpose: Purpose) -> SandboxError:
    return AuthError(f"E2B refused the key in E2B_API_KEY, or there is none: {text}", hint=KEY_HINT)


def _gone(text: str, _answer: Answer | None, _purpose: Purpose) -> SandboxError:
    return SandboxGone(f"The sandbox does not exist any more: {text}")


def _throttled(text: str, answer: Answer | None, _purpose: Purpose) -> SandboxError:
    wait = None if answer is None else answer.retry_after
    hint = "Wait, or end sandboxes of this team, then call again." if wait is None else None
    return RateLimitError(f"E2B throttles requests: {text}", retry_after=wait, hint=hint)


def _busy(text: str, answer: Answer | None, purpose: Purpose) -> SandboxError:
    if purpose is not Purpose.CREATE:
        return _unreachable(text, answer, purpose)
    return CreationError(
        f"E2B has no room for it now: {text}", hint="Try again in a while.", retryable=True
    )


def _unreachable(text: str, _answer: Answer | None, _purpose: Purpose) -> SandboxError:
    return SandboxUnreachable(
        f"E2B did not answer, or the connection broke: {text}",
        hint="Check the network, E2B_DOMAIN, and https://status.e2b.dev",
    )


def _full(text: str, _answer: Answer | None, _purpose: Purpose) -> SandboxError:
    return DiskFull(f"The sandbox's disk is full: {text}", limit="disk of the template")


def _refused(text: str, _answer: Answer | None, purpose: Purpose) -> SandboxError:
    kind: type[SandboxError] = purpose.value
    return kind(f"E2B refused the request: {text}", retryable=False)


def _unknown(text: str, answer: Answer | None, purpose: Purpose) -> SandboxError:
    if purpose is not Purpose.CREATE:
        return _refused(text, answer, purpose)
    return ConfigurationError(
        f"E2B does not know what was asked for: {text}",
        hint="Check the template's name, and that it belongs to the team of the key.",
    )


BY_CLASS: Mapping[str, Make] = {
    "AuthenticationException": _auth,
    "SandboxNotRunningException": _gone,
    "SandboxNotFoundException": _gone,
    "RateLimitException": _throttled,
    "ServiceBusyException": _busy,
    "SandboxUnreachableException": _unreachable,
    "NotEnoughSpaceException": _full,
}
"""By the name of a class of the SDK; the first one of the exception's ancestry counts."""

BY_STATUS: Mapping[int, Make] = {
    400: _refused,
    401: _auth,
    403: _auth,
    404: _unknown,
    409: _refused,
    422: _refused,
    429: _throttled,
    503: _busy,
}
"""By the status of an HTTP answer; the rest of 5xx means that nobody who knows has answered."""

CONNECTION = frozenset(
    (
        "TransportError",  # httpx: refused, dropped, timed out
        "ReadError",  # pyqwest, below the RPC client
        "WriteError",
        "StreamError",
        "OSError",
        "TimeoutException",
        "CancelledError",
        "JSONDecodeError",  # an answer that was cut, or somebody else's
    )
)
"""Names of classes that say that there was no answer, or not all of it."""


def never_sent(error: BaseException) -> bool:
    """Say whether a request is known not to have reached anybody."""
    return any(
        type(item).__name__ in ("ConnectError", "ConnectTimeout")
        and type(item).__module__.partition(".")[0] == "httpx"
        for item in chain(error)
    )


def translated(error: Exception, purpose: Purpose) -> SandboxError:
    """Return the error of sandboxio for one of the SDK; the caller raises it ``from`` that."""
    if isinstance(error, SandboxError):
        return error
    text = _words(error)
    names = [kind.__name__ for kind in type(error).__mro__]
    answer = answer_in(error)
    for name in names:
        if name in BY_CLASS:
            return BY_CLASS[name](text, answer, purpose)
    # The code interpreter says it as a timeout with the edge's words in it.
    if "was not found" in str(error) and (answer is None or answer.status == 502):
        return _gone(text, answer, purpose)
    if answer is not None and answer.status in BY_STATUS:
        return BY_STATUS[answer.status](f"status {answer.status}: {text}", answer, purpose)
    if answer is not None and answer.status >= 500:
        return _unreachable(f"status {answer.status}: {text}", answer, purpose)
    if CONNECTION.intersection(names):
        return _unreachable(f"{type(error).__name__}: {text}", answer, purpose)
    return ProviderError(f"E2B's SDK failed: {type(error).__name__}: {text}")


def _words(error: Exception) -> str:
    words = str(error).strip()
    if not words:
        return type(error).__name__
    return words if len(words) <= MAX_TEXT else f"{type(error).__name__}, a long text"
