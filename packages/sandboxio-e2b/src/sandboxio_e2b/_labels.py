"""What a sandbox carries at E2B, so that it can be found again: metadata, keys and values text."""

from __future__ import annotations

import os
from collections.abc import Mapping

from sandboxio.errors import ConfigurationError

__all__ = ["MANAGED", "NAME", "OURS", "SESSION", "callers", "metadata", "owner"]

OURS = "sandboxio_"

MANAGED = "sandboxio_managed"
SESSION = "sandboxio_session"
NAME = "sandboxio_name"


def metadata(labels: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the metadata of a sandbox.

    Raises:
        ConfigurationError: A label would pass for one of ours.
    """
    for key in labels:
        if key.startswith(OURS):
            raise ConfigurationError(
                f"The metadata key {key!r} is reserved: sandboxio finds its sandboxes by it.",
                hint=f"Choose a key that does not begin with {OURS!r}.",
            )
    return {**labels, MANAGED: "true", SESSION: str(os.getpid()), NAME: name}


def callers(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of the caller."""
    return {key: value for key, value in stored.items() if not key.startswith(OURS)}


def owner(stored: Mapping[str, str]) -> str | None:
    """Return who made it."""
    session = stored.get(SESSION)
    return None if session is None else f"pid {session}"
