"""Faults that a test asks the server for: what goes wrong, where, and how often."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Fault", "Faults"]

Drop = Literal["before", "head", "body", "after"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that goes wrong with requests to one route.

    Attributes:
        route: ``"METHOD /path"``, with ``*`` for any method and for any one part of the path:
            ``"POST /v2/sandboxes"``, ``"DELETE /sandboxes/*"``, ``"POST /process.Process/Start"``.
        times: How many requests it happens to; later ones are served normally.
        skip: How many requests are served normally first.
        delay: Seconds to wait before anything else.
        status: Answer with this status and ``body`` instead of serving.
        body: Of that answer. ``None`` is the service's own error shape for the status.
        headers: Of that answer, for example ``{"Retry-After": "7"}``.
        drop: Abort the connection: ``"before"`` the request is served, with the ``"head"`` of the
            answer (served, and its reply lost), in the middle of the ``"body"``, or ``"after"``
            all of the body but its end.
        cut_after: With ``drop="body"``, how many bytes of the body are let through.
        end_early: End the answer's body cleanly after ``cut_after`` bytes.
        silent: Serve nothing, answer nothing, and keep the connection.

    Example:
        >>> from sandboxio_testing.e2b import Fault
        >>> Fault(route="POST /v2/sandboxes", status=429, headers={"Retry-After": "7"}).times
        1
    """

    route: str
    times: int = 1
    skip: int = 0
    delay: float = 0
    status: int | None = None
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    drop: Drop | None = None
    cut_after: int = 0
    end_early: bool = False
    silent: bool = False


class Faults:
    """The faults of one server; may be changed from any thread while it serves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: list[list[object]] = []

    def add(self, fault: Fault) -> None:
        """Let it happen from now on."""
        with self._lock:
            self._active.append([fault, fault.skip, fault.times])

    def clear(self) -> None:
        """Let nothing go wrong any more."""
        with self._lock:
            self._active.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """Return what happens to a request, and count it."""
        with self._lock:
            for entry in self._active:
                fault, skip, times = entry
                assert isinstance(fault, Fault)
                assert isinstance(skip, int)
                assert isinstance(times, int)
                if times <= 0 or not matches(fault.route, method, path):
                    continue
                if skip > 0:
                    entry[1] = skip - 1
                    continue
                entry[2] = times - 1
                return fault
        return None


def matches(route: str, method: str, path: str) -> bool:
    """Say whether a request is to a route."""
    wanted_method, _, wanted = route.partition(" ")
    if wanted_method not in ("*", method):
        return False
    parts, pattern = path.strip("/").split("/"), wanted.strip("/").split("/")
    return len(parts) == len(pattern) and all(
        word in ("*", part) for word, part in zip(pattern, parts, strict=True)
    )
