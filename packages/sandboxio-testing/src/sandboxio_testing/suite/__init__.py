"""The contract suite: pytest classes that hold a backend to every promise of sandboxio.

    from sandboxio_testing.suite import BackendContract


    class TestMine(BackendContract):
        backend = MyBackend
        witness = MyWitness()

`docs/how-to/write-an-adapter.md` tells the rest.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

import pytest

# Before any module of the suite is loaded, so that its assertions tell what they saw.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

if TYPE_CHECKING:
    from ._base import ContractBase
    from ._contract import BackendContract
    from ._namespaces import NamespaceWitness
    from ._probes import Probes
    from ._witness import ProviderFacts, Unanswerable, Witness

_LAZY = {
    "BackendContract": "._contract",
    "ContractBase": "._base",
    "NamespaceWitness": "._namespaces",
    "Probes": "._probes",
    "ProviderFacts": "._witness",
    "Unanswerable": "._witness",
    "Witness": "._witness",
}

__all__ = [
    "BackendContract",
    "ContractBase",
    "NamespaceWitness",
    "Probes",
    "ProviderFacts",
    "Unanswerable",
    "Witness",
]


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
