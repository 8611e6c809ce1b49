"""Standard tests stay as they are: a gap is data with a link, never a method of a subclass."""

from __future__ import annotations

__all__ = ["missing_tests", "refuse_overrides"]

STANDARD = __package__
"""Package of the standard tests."""


def _standard_tests(cls: type) -> dict[str, object]:
    """Return the tests that the suite gives to a class, whatever hides them."""
    found: dict[str, object] = {}
    for base in cls.__mro__:
        if base.__module__.startswith(f"{STANDARD}."):
            for name, value in vars(base).items():
                if name.startswith("test_"):
                    found.setdefault(name, value)
    return found


def missing_tests(cls: type) -> list[str]:
    """Return the names of the standard tests that a class has overridden or deleted."""
    return sorted(
        name
        for name, value in _standard_tests(cls).items()
        if getattr(cls, name, None) is not value
    )


def refuse_overrides(cls: type) -> None:
    """Raise when a class that is being made overrides or deletes a standard test."""
    if cls.__module__.startswith(f"{STANDARD}."):
        return
    if changed := missing_tests(cls):
        raise TypeError(
            f"{cls.__name__} overrides standard tests of the contract: {', '.join(changed)}. "
            "Put the clause into `known_gaps`, with the address of an issue."
        )
