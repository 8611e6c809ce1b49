"""The Docker Engine backend of sandboxio; importing it loads neither the SDK nor an event loop."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._backend import DockerBackend
    from ._config import DockerConfig

__all__ = ["DockerBackend", "DockerConfig"]

_LAZY = {"DockerBackend": "._backend", "DockerConfig": "._config"}


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
