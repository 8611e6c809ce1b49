"""One secure API for running untrusted code in any sandbox.

    import sandboxio

    async with await sandboxio.create("local://") as sandbox:
        print((await sandbox.run_code("print('hello')")).stdout)

Importing this loads no backend, no event loop and no plugin; each name is resolved at first use.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it; importing typing would cost more than all of this
if TYPE_CHECKING:
    from . import audit, errors, models, otel, protocols, spi
    from ._api import connect, create, register
    from ._api.doctor import doctor
    from ._api.doctor_report import BackendReport, DoctorReport, RoutingReport
    from ._api.sync import connect_sync, create_sync
    from ._api.sync_files import SyncFileSystem
    from ._api.sync_process import SyncProcess
    from ._api.sync_sandbox import Sandbox
    from .errors import (
        AuditSinkError,
        AuditSinkWarning,
        AuthError,
        BackendNotFound,
        BackendNotInstalled,
        CapabilityNotSupported,
        ConfigurationError,
        ConnectError,
        CreateTimeout,
        CreationError,
        DiskFull,
        ExecutionError,
        ExecutionTimeout,
        FileSystemError,
        NetworkPolicyViolation,
        NoRoute,
        OrphanedSandboxWarning,
        OutOfMemory,
        OutputLimitExceeded,
        PathNotFound,
        ProcessLimitExceeded,
        ProviderError,
        RateLimitError,
        ResourceLimitExceeded,
        SandboxCorrupted,
        SandboxError,
        SandboxGone,
        SandboxTimeout,
        SandboxUnreachable,
        UnverifiedIsolationWarning,
    )
    from .models import (
        PIPE,
        AppliedCap,
        AppliedPolicy,
        BackendConfig,
        Capability,
        ExecResult,
        FileInfo,
        Health,
        IsolationTier,
        ManagedSandbox,
        Meter,
        NetworkPolicy,
        OutputChunk,
        Resources,
        RichOutput,
    )
    from .protocols import AsyncFileSystem, AsyncSandbox, Backend, Process, ReapableBackend

_LAZY = {
    "connect": "._api",
    "create": "._api",
    "register": "._api",
    "doctor": "._api.doctor",
    "BackendReport": "._api.doctor_report",
    "DoctorReport": "._api.doctor_report",
    "RoutingReport": "._api.doctor_report",
    "connect_sync": "._api.sync",
    "create_sync": "._api.sync",
    "SyncFileSystem": "._api.sync_files",
    "SyncProcess": "._api.sync_process",
    "Sandbox": "._api.sync_sandbox",
    "AuditSinkError": ".errors",
    "AuditSinkWarning": ".errors",
    "AuthError": ".errors",
    "BackendNotFound": ".errors",
    "BackendNotInstalled": ".errors",
    "CapabilityNotSupported": ".errors",
    "ConfigurationError": ".errors",
    "ConnectError": ".errors",
    "CreateTimeout": ".errors",
    "CreationError": ".errors",
    "DiskFull": ".errors",
    "ExecutionError": ".errors",
    "ExecutionTimeout": ".errors",
    "FileSystemError": ".errors",
    "NetworkPolicyViolation": ".errors",
    "NoRoute": ".errors",
    "OrphanedSandboxWarning": ".errors",
    "OutOfMemory": ".errors",
    "OutputLimitExceeded": ".errors",
    "PathNotFound": ".errors",
    "ProcessLimitExceeded": ".errors",
    "ProviderError": ".errors",
    "RateLimitError": ".errors",
    "ResourceLimitExceeded": ".errors",
    "SandboxCorrupted": ".errors",
    "SandboxError": ".errors",
    "SandboxGone": ".errors",
    "SandboxTimeout": ".errors",
    "SandboxUnreachable": ".errors",
    "UnverifiedIsolationWarning": ".errors",
    "PIPE": ".models",
    "AppliedCap": ".models",
    "AppliedPolicy": ".models",
    "BackendConfig": ".models",
    "Capability": ".models",
    "ExecResult": ".models",
    "FileInfo": ".models",
    "Health": ".models",
    "IsolationTier": ".models",
    "ManagedSandbox": ".models",
    "Meter": ".models",
    "NetworkPolicy": ".models",
    "OutputChunk": ".models",
    "Resources": ".models",
    "RichOutput": ".models",
    "AsyncFileSystem": ".protocols",
    "AsyncSandbox": ".protocols",
    "Backend": ".protocols",
    "Process": ".protocols",
    "ReapableBackend": ".protocols",
}

_MODULES = ("audit", "errors", "models", "otel", "protocols", "spi")

__all__ = [
    "PIPE",
    "AppliedCap",
    "AppliedPolicy",
    "AsyncFileSystem",
    "AsyncSandbox",
    "AuditSinkError",
    "AuditSinkWarning",
    "AuthError",
    "Backend",
    "BackendConfig",
    "BackendNotFound",
    "BackendNotInstalled",
    "BackendReport",
    "Capability",
    "CapabilityNotSupported",
    "ConfigurationError",
    "ConnectError",
    "CreateTimeout",
    "CreationError",
    "DiskFull",
    "DoctorReport",
    "ExecResult",
    "ExecutionError",
    "ExecutionTimeout",
    "FileInfo",
    "FileSystemError",
    "Health",
    "IsolationTier",
    "ManagedSandbox",
    "Meter",
    "NetworkPolicy",
    "NetworkPolicyViolation",
    "NoRoute",
    "OrphanedSandboxWarning",
    "OutOfMemory",
    "OutputChunk",
    "OutputLimitExceeded",
    "PathNotFound",
    "Process",
    "ProcessLimitExceeded",
    "ProviderError",
    "RateLimitError",
    "ReapableBackend",
    "ResourceLimitExceeded",
    "Resources",
    "RichOutput",
    "RoutingReport",
    "Sandbox",
    "SandboxCorrupted",
    "SandboxError",
    "SandboxGone",
    "SandboxTimeout",
    "SandboxUnreachable",
    "SyncFileSystem",
    "SyncProcess",
    "UnverifiedIsolationWarning",
    "audit",
    "connect",
    "connect_sync",
    "create",
    "create_sync",
    "doctor",
    "errors",
    "models",
    "otel",
    "protocols",
    "register",
    "spi",
]


def __getattr__(name: str) -> object:
    value: object
    if name in _MODULES:
        value = import_module(f".{name}", __name__)
    elif name in _LAZY:
        value = getattr(import_module(_LAZY[name], __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
