"""A sandbox with no daemon: Linux namespaces through bubblewrap.

    async with await sandboxio.create("local://") as sandbox:
        print((await sandbox.run(["id"])).stdout)

Its isolation tier is ``CONTAINER``: the kernel is shared with the host.
"""

from __future__ import annotations

# `typing` is not imported: a warden imports this package too, and its start is part of every create.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandboxio_local._backend import LocalBackend
    from sandboxio_local._config import LocalConfig

__all__ = ["LocalBackend", "LocalConfig"]

_HOMES = {"LocalBackend": "_backend", "LocalConfig": "_config"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
