"""Targets that a router decides: a `Route`, and ``auto://``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from .._wiring.registry import Registry
from ..errors import ConfigurationError
from ..models import BackendConfig, IsolationTier, NetworkPolicy, Resources
from ..protocols import DEFAULT_NETWORK, DEFAULT_TIMEOUT, AsyncSandbox
from .dsn import parse_dsn, timeout_of

if TYPE_CHECKING:
    from ..routing import Route, Router

__all__ = ["Routed", "create_routed", "route_of"]

AUTO = "auto"


@lru_cache(maxsize=1)
def default_router() -> Router:
    """Return the router of ``auto://``, which remembers for this process what it learned."""
    from ..routing import Router

    return Router.default()


@dataclass(frozen=True)
class Routed:
    """A route, and what its target says besides."""

    route: Route
    template: str | None = None
    timeout: float | None = None


def route_of(target: object, registry: Registry) -> Routed | None:
    """Return the route that a target stands for, or ``None`` if no router is asked.

    Raises:
        ConfigurationError: It is an ``auto://`` with parameters that only one backend has.
    """
    if target is None or isinstance(target, BackendConfig):
        return None
    if isinstance(target, str):
        if target.partition("://")[0] != AUTO or registry.is_registered(AUTO):
            return None
        dsn = parse_dsn(target)
        return Routed(default_router().route_for(), dsn.template, timeout_of(dsn))
    from ..routing import Route

    return Routed(target) if isinstance(target, Route) else None


async def create_routed(
    routed: Routed,
    *,
    template: str | None,
    resources: Resources,
    network: NetworkPolicy,
    env: Mapping[str, str] | None,
    secrets: Mapping[str, str] | None,
    timeout: float,
    metadata: Mapping[str, str] | None,
    require_isolation: IsolationTier | None,
) -> AsyncSandbox:
    """Create by a route. What is left at its default is the routing file's to say."""
    from ..routing import CreateArguments

    route = routed.route.requiring(require_isolation)
    return await route.create(
        CreateArguments(
            template=_once("template", template, None, routed.template),
            resources=resources,
            network=None if network is DEFAULT_NETWORK else network,
            env=env,
            secrets=secrets,
            timeout=_once("timeout", timeout, DEFAULT_TIMEOUT, routed.timeout),
            metadata=metadata,
        )
    )


T = TypeVar("T")


def _once(name: str, value: T, default: object, configured: T | None) -> T | None:
    if value == default:
        return configured
    if configured not in (None, value):
        raise ConfigurationError(
            f"{name} is given twice: in the target and as an argument of create().",
            hint=f"Give {name} once.",
        )
    return value
