"""``sandboxio.testing``: another name of the wheel ``sandboxio-testing``, loaded at first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..errors import BackendNotInstalled

if TYPE_CHECKING:
    from sandboxio_testing import Call as Call
    from sandboxio_testing import Egress as Egress
    from sandboxio_testing import FakeBackend as FakeBackend
    from sandboxio_testing import FakeConfig as FakeConfig
    from sandboxio_testing import VirtualClock as VirtualClock
    from sandboxio_testing import offline as offline


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        module = import_module("sandboxio_testing")
    except ModuleNotFoundError as error:
        raise BackendNotInstalled(
            "sandboxio.testing needs the wheel sandboxio-testing.",
            hint='uv pip install "sandboxio[testing]"',
        ) from error
    value: object = getattr(module, name)
    return value
