"""What a failure of the provider means in sandboxio's terms: one table, one place."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from sandboxio.errors import ConnectError, CreationError, SandboxError

__all__ = ["translated"]

_MEANINGS: tuple[tuple[type[Exception], type[SandboxError], str], ...] = (
    (FileNotFoundError, CreationError, "Install bubblewrap and Python: apt-get install python3"),
    (
        PermissionError,
        CreationError,
        "Allow user namespaces: sysctl kernel.unprivileged_userns_clone=1",
    ),
    (ConnectionRefusedError, ConnectError, "List what exists: sandboxio reap"),
)


@contextmanager
def translated(what: str) -> Generator[None, None, None]:
    """Turn errors that we can name into sandboxio's; the engine wraps all others."""
    try:
        yield
    except Exception as error:
        for theirs, ours, hint in _MEANINGS:
            if isinstance(error, theirs):
                raise ours(f"{what} failed: {error}", hint=hint) from error
        raise
