"""The backend that everything runs in: local sandboxes, through sandboxio's public registry."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sandboxio.errors import BackendNotInstalled
from sandboxio.protocols import Backend

__all__ = ["local_backend"]


def local_backend(read_only: dict[str, str]) -> Backend:
    """Return a backend whose sandboxes can read these directories.

    Raises:
        BackendNotInstalled: Its wheel is missing.
    """
    try:
        # By name, for no wheel of the workspace imports another: it comes with the extra.
        module: Any = import_module("sandboxio_local")
    except ImportError as error:
        raise BackendNotInstalled(
            "The local E2B runs everything in the local backend, which is not installed.",
            hint='uv pip install "sandboxio-testing[e2b]"',
        ) from error
    backend: Backend = module.LocalBackend(read_only=read_only)
    return backend
