"""`create_sync` and `connect_sync`: the same as `create` and `connect`, without an event loop."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from ..models import BackendConfig, IsolationTier, NetworkPolicy, Resources
from ..protocols import DEFAULT_NETWORK, DEFAULT_TIMEOUT, Backend
from .sync_sandbox import Sandbox, open_sandbox
from .targets import connect, create

if TYPE_CHECKING:
    from ..routing import Route

__all__ = ["connect_sync", "create_sync"]


def create_sync(
    target: str | BackendConfig | Route | None = None,
    *,
    template: str | None = None,
    resources: Resources = Resources(),
    network: NetworkPolicy = DEFAULT_NETWORK,
    env: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    metadata: Mapping[str, str] | None = None,
    require_isolation: IsolationTier | None = None,
) -> Sandbox:
    """Create a sandbox, for a caller without an event loop; see `create`.

    It works in a script, in threads, and where a loop is running already, which it then blocks.
    Each sandbox has one thread of its own, until it is closed. A program that needs hundreds of
    them at once is better served by `create`.

    Example:
        >>> import sandboxio
        >>> def main() -> str:
        ...     with sandboxio.create_sync("local://", timeout=60) as sandbox:
        ...         return sandbox.run_code("print(6 * 7)").stdout
    """
    return open_sandbox(
        partial(
            create,
            target,
            template=template,
            resources=resources,
            network=network,
            env=env,
            secrets=secrets,
            timeout=timeout,
            metadata=metadata,
            require_isolation=require_isolation,
        )
    )


def connect_sync(sandbox_id: str, *, backend: str | Backend = "docker") -> Sandbox:
    """Attach to a sandbox that exists, for a caller without an event loop; see `connect`.

    Example:
        >>> import sandboxio
        >>> def look(sandbox_id: str) -> str:
        ...     with sandboxio.connect_sync(sandbox_id, backend="local") as sandbox:
        ...         return sandbox.run(["ls"]).stdout
    """
    return open_sandbox(partial(connect, sandbox_id, backend=backend))
