"""Masking of secret values, once, before anything leaves for a message, a record or a span."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping

__all__ = ["MASK", "Redactor", "is_credential_name"]

MASK = "***"

SHORTEST = 4
"""Characters below which a value is not masked: it would mangle unrelated text."""

_CREDENTIAL_NAME = re.compile(
    r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PWD|CREDENTIALS?|PRIVATE|DSN)(_|$)",
    re.IGNORECASE,
)


def is_credential_name(name: str) -> bool:
    """Say whether an environment variable of that name usually holds a credential."""
    return _CREDENTIAL_NAME.search(name) is not None


class Redactor:
    """Replaces secret values in text.

    Example:
        >>> Redactor(["hunter2!"]).text("the password is hunter2!")
        'the password is ***'
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        wanted = {value for value in values if len(value) >= SHORTEST}
        # A secret of several lines also appears line by line, and escaped as repr() shows it.
        for value in list(wanted):
            wanted.update(line for line in value.splitlines() if len(line) >= 2 * SHORTEST)
            wanted.add(repr(value)[1:-1])
        # Longest first, so that a secret that contains another leaves no rest behind.
        ordered = sorted(wanted, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    @classmethod
    def for_environment(
        cls, env: Mapping[str, str], secret_names: Iterable[str], extra: Iterable[str] = ()
    ) -> Redactor:
        """Mask the secrets of an environment, and what looks like a credential there."""
        secret = set(secret_names)
        values = [env[name] for name in secret if name in env]
        short = sorted(name for name in secret if 0 < len(env.get(name, "")) < SHORTEST)
        if short:
            warnings.warn(
                f"These secrets are too short to be masked ({SHORTEST} characters): {short}",
                stacklevel=2,
            )
        values += [value for name, value in env.items() if is_credential_name(name)]
        return cls([*values, *extra])

    def text(self, text: str) -> str:
        """Return `text` without any secret."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)
