"""What an adapter may import: one module for all of it.

An adapter imports from here and from nothing else of sandboxio. Names are resolved at first use
(PEP 562), so a plugin module loads neither the engine nor an event loop by importing this. It is
also the one place that looks upwards: `DriverBackend` lives in the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._engine.backend import DriverBackend
    from .._wiring.hookspecs import hookimpl
    from .._wiring.registry import default_registry
    from ..guest import (
        GUEST_PROGRAM,
        GuestChannel,
        GuestInit,
        GuestSandbox,
        SocketTransport,
        Transport,
        guest_bytecode,
    )
    from ..guest.files import file_error
    from ._check import Check, SupportsDiagnosis
    from ._clock import Clock, SuppliesClock
    from ._command import CommandPlugin
    from ._denials import CountsDenials
    from ._driver import (
        BackendDriver,
        CodeResult,
        Command,
        ExitCause,
        FileMeta,
        ProcessDriver,
        ProcessExit,
        ProvisionRequest,
        SandboxDriver,
        SupportsCode,
    )
    from ._loading import SupportsLoading
    from ._plugin import BackendPlugin, DsnParameter
    from ._prepare import SupportsPrepare, Unprepared
    from ._progress import Progress
    from ._shield import Outcome, run_to_the_end

_LAZY = {
    "DriverBackend": ".._engine.backend",
    "hookimpl": ".._wiring.hookspecs",
    "default_registry": ".._wiring.registry",
    "GUEST_PROGRAM": "..guest",
    "GuestChannel": "..guest",
    "GuestInit": "..guest",
    "GuestSandbox": "..guest",
    "SocketTransport": "..guest",
    "Transport": "..guest",
    "guest_bytecode": "..guest",
    "file_error": "..guest.files",
    "Check": "._check",
    "SupportsDiagnosis": "._check",
    "Clock": "._clock",
    "SuppliesClock": "._clock",
    "CommandPlugin": "._command",
    "CountsDenials": "._denials",
    "BackendDriver": "._driver",
    "CodeResult": "._driver",
    "Command": "._driver",
    "ExitCause": "._driver",
    "FileMeta": "._driver",
    "ProcessDriver": "._driver",
    "ProcessExit": "._driver",
    "ProvisionRequest": "._driver",
    "SandboxDriver": "._driver",
    "SupportsCode": "._driver",
    "SupportsLoading": "._loading",
    "BackendPlugin": "._plugin",
    "DsnParameter": "._plugin",
    "SupportsPrepare": "._prepare",
    "Unprepared": "._prepare",
    "Progress": "._progress",
    "Outcome": "._shield",
    "run_to_the_end": "._shield",
}

__all__ = [
    "GUEST_PROGRAM",
    "BackendDriver",
    "BackendPlugin",
    "Check",
    "Clock",
    "CodeResult",
    "Command",
    "CommandPlugin",
    "CountsDenials",
    "DriverBackend",
    "DsnParameter",
    "ExitCause",
    "FileMeta",
    "GuestChannel",
    "GuestInit",
    "GuestSandbox",
    "Outcome",
    "ProcessDriver",
    "ProcessExit",
    "Progress",
    "ProvisionRequest",
    "SandboxDriver",
    "SocketTransport",
    "SuppliesClock",
    "SupportsCode",
    "SupportsDiagnosis",
    "SupportsLoading",
    "SupportsPrepare",
    "Transport",
    "Unprepared",
    "default_registry",
    "file_error",
    "guest_bytecode",
    "hookimpl",
    "run_to_the_end",
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
