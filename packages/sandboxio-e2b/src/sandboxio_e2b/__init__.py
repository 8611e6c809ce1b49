"""The E2B backend of sandboxio: each sandbox a microVM of its own, on E2B's cloud.

    async with await sandboxio.create("e2b://") as sandbox:
        print((await sandbox.run(["uname", "-a"])).stdout)

It uses E2B's own SDK, and needs ``E2B_API_KEY``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandboxio_e2b._backend import E2BBackend
    from sandboxio_e2b._config import E2BConfig

__all__ = ["E2BBackend", "E2BConfig"]

_HOMES = {"E2BBackend": "_backend", "E2BConfig": "_config"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
