"""What a caller asks a router for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from ..errors import ConfigurationError
from ..models import Capability, IsolationTier, NetworkPolicy, Resources
from ..protocols import DEFAULT_TIMEOUT

__all__ = ["NOTHING", "CreateArguments", "RouteRequest", "combined_labels", "enforced_by"]

NOTHING = Capability(0)
"""No capability in particular."""


@dataclass(frozen=True, kw_only=True)
class RouteRequest:
    """What the router decides by. Everything else of a create rides along.

    Attributes:
        labels: What the ``routes`` of the routing file match on.
        needs: Capabilities that the backend must declare.
        require_isolation: Least tier; the class that is found may raise it, never lower it.
        region: Where the sandbox shall be. A backend without regions fits every region.
        backend: Name of the one entry to use. Routing is skipped, and nothing else is tried.

    Example:
        >>> from sandboxio.routing import RouteRequest
        >>> RouteRequest(labels={"tool": "run_python"}, region="eu").region
        'eu'
    """

    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    needs: Capability = NOTHING
    require_isolation: IsolationTier | None = None
    region: str | None = None
    backend: str | None = None

    def __post_init__(self) -> None:
        _check_text("region", self.region)
        _check_text("backend", self.backend)
        if not isinstance(cast("object", self.needs), Capability):
            raise ConfigurationError(
                f"needs must be a Capability, not {type(self.needs).__name__}.",
                hint="For example needs=Capability.STATEFUL_CODE | Capability.STREAMING",
            )
        required = cast("object", self.require_isolation)
        if required is not None and not isinstance(required, IsolationTier):
            raise ConfigurationError(
                f"require_isolation must be an IsolationTier, not {type(required).__name__}."
            )
        if required is IsolationTier.UNKNOWN:
            raise ConfigurationError(
                "require_isolation=UNKNOWN requires nothing.",
                hint="Name a tier, for example IsolationTier.CONTAINER, or leave it out.",
            )


def _check_text(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigurationError(f"{name} must be a str that is not empty, or None.")


def combined_labels(
    labels: Mapping[str, str] | None, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return labels given as a mapping and as keywords, checked.

    Raises:
        ConfigurationError: They are not text, or one is given in both ways.
    """
    given = cast("object", labels)
    if given is not None and not isinstance(given, Mapping):
        raise ConfigurationError(f"labels must be a mapping, not {type(given).__name__}.")
    found: dict[str, str] = {}
    for source in (labels or {}, more or {}):
        for key, value in cast("Mapping[object, object]", source).items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise ConfigurationError(
                    f"The label {key!r} must have a str as its name and its value."
                )
            if key in found:
                raise ConfigurationError(f"The label {key!r} is given twice.")
            found[key] = value
    return found


@dataclass(frozen=True, kw_only=True)
class CreateArguments:
    """The arguments of one create, as they ride along to whatever backend is taken.

    ``network`` and ``timeout`` are ``None`` where the caller said nothing, for the policy of the
    file to fill in.
    """

    template: str | None = None
    resources: Resources = Resources()
    network: NetworkPolicy | None = None
    env: Mapping[str, str] | None = field(default=None, repr=False)
    secrets: Mapping[str, str] | None = field(default=None, repr=False)
    timeout: float | None = None
    metadata: Mapping[str, str] | None = None

    @property
    def bound(self) -> float:
        """Seconds that creating may take, and that the sandbox then lives."""
        return DEFAULT_TIMEOUT if self.timeout is None else self.timeout

    @property
    def egress(self) -> NetworkPolicy:
        """The network policy to enforce; everything is denied where nobody said anything."""
        return NetworkPolicy() if self.network is None else self.network

    def with_template(self, template: str | None) -> CreateArguments:
        """Return them with the template of an entry, which the caller must not contradict."""
        if template is None or template == self.template:
            return self
        if self.template is not None:
            raise ConfigurationError(
                "template is given twice: in the routing file and as an argument.",
                hint="Give template once, or add an entry for the other template.",
            )
        return replace(self, template=template)


def enforced_by(arguments: CreateArguments) -> Capability:
    """Return what a backend must be able to do so that nothing that was asked for is dropped."""
    # Even egress="allow" is a policy: the engine creates nothing where none can be enforced.
    wanted = Capability.NETWORK_POLICY
    network = arguments.egress
    if network.allow:
        wanted |= Capability.NETWORK_ALLOWLIST
    if network.ingress_ports:
        wanted |= Capability.TUNNELS
    if arguments.resources.gpu is not None:
        wanted |= Capability.GPU
    return wanted
