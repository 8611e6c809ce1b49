"""What a backend tells `sandboxio doctor`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

__all__ = ["Check", "SupportsDiagnosis"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, and what was found; made by `passed`, `note` or `failed`.

    No part of it holds a secret: variables are named, never quoted.

    Attributes:
        name: What was looked at, in a word or two: ``"endpoint"``.
        status: ``"ok"``; ``"note"``: nothing is wrong, and something is missing or worth knowing;
            ``"failed"``: no sandbox can be had before this is repaired.
        detail: What was found, in one line.
        hint: The exact fix, as a command where there is one.

    Example:
        >>> from sandboxio.spi import Check
        >>> Check.failed("socket", "permission denied", "sudo usermod -aG docker $USER").status
        'failed'
    """

    name: str
    status: Literal["ok", "note", "failed"]
    detail: str
    hint: str | None = None

    @classmethod
    def passed(cls, name: str, detail: str) -> Check:
        """Return that something is as it should be."""
        return cls(name, "ok", detail)

    @classmethod
    def note(cls, name: str, detail: str, hint: str | None = None) -> Check:
        """Return that something is worth knowing, and perhaps how to change it."""
        return cls(name, "note", detail, hint)

    @classmethod
    def failed(cls, name: str, detail: str, hint: str) -> Check:
        """Return that something is broken; there is no failure without a fix."""
        return cls(name, "failed", detail, hint)

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON-like values."""
        return {
            "name": self.name,
            "status": self.status,
            "detail": self.detail,
            "hint": self.hint,
        }


@runtime_checkable
class SupportsDiagnosis(Protocol):
    """A `BackendDriver`, or a backend, that tells `sandboxio doctor` more than `health` does.

    Without it, doctor shows what ``health()`` says.
    """

    def diagnose(self) -> AsyncIterator[Check]:
        """Yield one check after the other, each as soon as it is known.

        Everything is free, changes nothing and creates nothing that outlives the call. What may
        take long comes last, and has a bound of little more than a second: doctor waits for two
        seconds, shows what was yielded until then, and says that the rest is missing. A check that
        fails ends it only if nothing more can be found out.

        No cancel scope and no task group may be open at a ``yield``.
        """
        ...
