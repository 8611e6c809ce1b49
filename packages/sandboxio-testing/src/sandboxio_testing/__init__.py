"""`FakeBackend`, the pytest plugin and the adapter contract suite of sandboxio.

Names are resolved at first use (PEP 562): pytest imports this at the start of every run in an
environment that has it, and must neither pay for the engine nor load it before it is measured.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._backend import FakeBackend
    from ._config import FakeConfig
    from ._fake.calls import Call
    from ._fake.clock import VirtualClock
    from ._fake.internet import Egress
    from .offline import offline

_LAZY = {
    "Call": "._fake.calls",
    "Egress": "._fake.internet",
    "FakeBackend": "._backend",
    "FakeConfig": "._config",
    "VirtualClock": "._fake.clock",
    "offline": ".offline",
}

__all__ = ["Call", "Egress", "FakeBackend", "FakeConfig", "VirtualClock", "offline"]


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
