"""An E2B of one's own, for tests: the service's protocol on loopback, run by local sandboxes.

    python -m sandboxio_testing.e2b

It is a double of somebody else's service, made from what their SDK sends and their servers answer,
and no E2B product. Needs ``sandboxio-testing[e2b]``. docs/how-to/local-e2b.md tells the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._edge import Seen
    from ._faults import Fault, Faults
    from ._server import LocalE2B

__all__ = ["Fault", "Faults", "LocalE2B", "Seen"]

_HOMES = {"Fault": "_faults", "Faults": "_faults", "LocalE2B": "_server", "Seen": "_edge"}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
