"""A create that has been asked for, and whose answer may never reach who asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from sandboxio.errors import ConnectError

__all__ = ["Pending"]


class Pending:
    """Known to the thread that asks the engine, and to whoever has to destroy what comes of it."""

    def __init__(self) -> None:
        self.created: str | None = None
        """Id of what the engine has made so far; set by the thread that asks."""
        self._lock = threading.Lock()
        self._asked = False
        self._wanted = True
        self._unwanted = False

    @property
    def undecided(self) -> bool:
        """Whether the engine has been asked and has not answered yet."""
        with self._lock:
            return self._asked

    def abandon(self) -> None:
        """Say that who wanted it has left: a thread that has not begun does not begin."""
        with self._lock:
            self._wanted = False

    def give_up(self) -> None:
        """Have the thread that asks remove what it gets."""
        with self._lock:
            self._unwanted = True

    @contextmanager
    def asking(self, remove: Callable[[], None]) -> Generator[None, None, None]:
        """Hold the request, in its thread; `remove` undoes it if nobody wants it any more.

        Raises:
            ConnectError: It was given up before it began.
        """
        with self._lock:
            if not self._wanted or self._unwanted:
                raise ConnectError("The create was given up before it began.")
            self._asked = True
        try:
            yield
        finally:
            if self._is_unwanted():
                remove()
            with self._lock:
                self._asked = False

    def _is_unwanted(self) -> bool:
        with self._lock:
            return self._unwanted
