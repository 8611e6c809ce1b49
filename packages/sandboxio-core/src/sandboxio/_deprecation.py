"""What is on its way out says so to the type checker, to whoever runs it, and in one wording.

A function, method or class carries the decorator, with the whole text as a literal: a type checker
reads it from the source, so nothing can be put together for it::

    @deprecated("`open` is deprecated since 0.3.0 and goes in 0.5.0: use `create`.")
    def open() -> None: ...

A parameter or a value cannot carry one; there a `Notice` is kept as a constant and given to `warn`.
`tools/release_deprecations.py` reads both from the source: it fails when the version that removes
something is reached, when the window is too short, and when no changelog tells of it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

# Type checkers know this very class, and none that is derived from it or wrapped around it.
from typing_extensions import deprecated

__all__ = ["Notice", "deprecated", "warn"]


@dataclass(frozen=True, kw_only=True)
class Notice:
    """What is deprecated, from when to when, and what takes its place.

    Attributes:
        what: The name as a caller writes it, for example `create(region=)`.
        since: The version of the wheel that deprecated it, in full: `0.3.0`.
        removal: The first version without it.
        use: What to write instead.
    """

    what: str
    since: str
    removal: str
    use: str

    @property
    def text(self) -> str:
        """The one wording of a deprecation, which the literals of decorators follow too."""
        return (
            f"`{self.what}` is deprecated since {self.since}"
            f" and goes in {self.removal}: use `{self.use}`."
        )


def warn(notice: Notice, *, above: int = 0) -> None:
    """Warn of something deprecated at the line of whoever called the function that calls this.

    Args:
        notice: What to tell.
        above: How many more frames of sandboxio lie between that line and here.
    """
    # 1 is this function and 2 the deprecated one; what imports a name does not count as a frame.
    warnings.warn(notice.text, DeprecationWarning, stacklevel=3 + above)
