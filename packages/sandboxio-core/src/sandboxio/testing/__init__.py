"""``sandboxio.testing``: another name of the wheel ``sandboxio-testing``, loaded at first use."""

from __future__ import annotations

from importlib import import_module

from ..errors import BackendNotInstalled


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
