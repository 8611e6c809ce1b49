"""Every DSN means the fake, for the time being."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from sandboxio.spi import default_registry

from ._backend import FakeBackend

__all__ = ["offline"]


@contextmanager
def offline(
    fake: FakeBackend | None = None, *, missing: Iterable[str] = ()
) -> Generator[FakeBackend, None, None]:
    """Let every DSN and typed configuration of this process mean one fake, in this block.

    ``docker://…``, ``e2b://…``, ``local://``, ``auto://`` and no target at all: what production
    code names stays as it is, and the test decides what it means. Afterwards everything means what
    it meant before. The fixture ``sbx_offline`` is this for one test; use it as it is in fixtures
    of a wider scope.

    Args:
        fake: The fake; a new one if there is none.
        missing: Names of backends that shall not be installed, to test how that is told.

    Example:
        >>> import sandboxio
        >>> from sandboxio_testing import offline
        >>> async def check() -> None:
        ...     with offline() as fake:
        ...         async with await sandboxio.create("docker://python:3.12-slim") as sandbox:
        ...             await sandbox.run("echo hello")
        ...         assert fake.calls[0].template == "python:3.12-slim"
    """
    backend = FakeBackend() if fake is None else fake
    with default_registry().redirected(backend, missing=missing):
        yield backend
