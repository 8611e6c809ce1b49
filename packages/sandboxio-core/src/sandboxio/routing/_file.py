"""What a routing file says, as checked values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..models import IsolationTier, NetworkPolicy

__all__ = ["BackendEntry", "IsolationClass", "Limits", "Policy", "RouteRule", "RoutingFile"]


@dataclass(frozen=True, kw_only=True)
class BackendEntry:
    """One entry of ``backends``.

    Attributes:
        name: Its key.
        adapter: Name of the backend that makes its sandboxes.
        place: Where it stands, for messages.
        template: Image or template.
        options: Options of the adapter's own configuration.
        credentials: Option → environment variable that holds its value.
        priority: The higher goes first.
        cost_tier: The lower goes first, among equals.
        regions: Where its sandboxes are; none means that it fits every region.
        enabled: Whether it may be used at all.
    """

    name: str
    adapter: str
    place: str
    template: str | None = None
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    credentials: Mapping[str, str] = field(default_factory=dict[str, str])
    priority: int = 0
    cost_tier: int = 0
    regions: tuple[str, ...] = ()
    enabled: bool = True


@dataclass(frozen=True, kw_only=True)
class IsolationClass:
    """One entry of ``isolation_classes``.

    Attributes:
        name: Its key.
        backend: The entry that is preferred.
        isolation: Least tier of the class; the tier of its backend if ``None``.
        failover: Whether another entry of that tier may stand in.
    """

    name: str
    backend: str
    isolation: IsolationTier | None = None
    failover: bool = True


@dataclass(frozen=True, kw_only=True)
class RouteRule:
    """One entry of ``routes``: all labels must be equal."""

    match: Mapping[str, str]
    class_name: str

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels of a request have all that is matched on."""
        return self.match.items() <= labels.items()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """``policy.limits``: what holds when a caller says nothing, and what none may exceed."""

    timeout_s: float | None = None
    cpu: float | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    processes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Policy:
    """``policy``: limits and network of every sandbox that the file routes."""

    network: NetworkPolicy | None = None
    limits: Limits = Limits()


@dataclass(frozen=True, kw_only=True)
class RoutingFile:
    """The whole file."""

    backends: Mapping[str, BackendEntry]
    classes: Mapping[str, IsolationClass]
    routes: tuple[RouteRule, ...]
    default_class: str
    policy: Policy = Policy()

    def class_for(self, labels: Mapping[str, str]) -> tuple[IsolationClass, str]:
        """Return the class of the first route that matches, and how it was found."""
        for number, rule in enumerate(self.routes):
            if rule.matches(labels):
                text = ", ".join(f"{key}={value}" for key, value in rule.match.items())
                return self.classes[rule.class_name], f"routes[{number}]: {text}"
        return self.classes[self.default_class], "default_class"
