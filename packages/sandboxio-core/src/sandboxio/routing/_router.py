"""The router: one request, the right sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from .._wiring.registry import Registry, default_registry
from ..errors import ConfigurationError
from ..models import Capability, IsolationTier, NetworkPolicy, Resources
from ..spi import Clock
from ._ceilings import governed
from ._decision import RouteDecision
from ._failover import Creating
from ._file import RoutingFile
from ._lanes import EntryStatus, Lanes
from ._load import load
from ._open import check_entry
from ._request import NOTHING, CreateArguments, RouteRequest, combined_labels, enforced_by
from ._routed import RoutedSandbox
from ._survey import Survey
from ._tree import from_data
from ._tuning import MonotonicClock, RouterTuning
from ._yaml import read_yaml

__all__ = ["Route", "Router"]

DEFAULT = {
    "backends": {"docker": {"adapter": "docker"}, "local": {"adapter": "local"}},
    "isolation_classes": {"standard": {"backend": "docker", "isolation": "container"}},
    "default_class": "standard",
}
"""What ``auto://`` means: Docker if its daemon answers, else local."""


class Router:
    """Takes requests to the backends of a routing file.

    Made by `from_file`, `from_dict` or `default`. It may be used from any task, event loop and
    thread, and shares nothing with other routers: what it learns of backends is its own.

    Example:
        >>> from sandboxio import Capability
        >>> from sandboxio.routing import Router
        >>> async def main() -> str:
        ...     router = Router.from_file("sandboxio-routing.yaml")
        ...     async with await router.create(needs=Capability.STREAMING, region="eu") as sandbox:
        ...         return (await sandbox.run(["uname", "-n"])).stdout
    """

    def __init__(
        self,
        file: RoutingFile,
        *,
        registry: Registry,
        tuning: RouterTuning | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._file = file
        self._tuning = RouterTuning() if tuning is None else tuning
        self._clock: Clock = MonotonicClock() if clock is None else clock
        self._lanes = Lanes(file.backends.values(), registry, self._clock, self._tuning)
        for entry in file.backends.values():
            check_entry(entry, registry)

    def __repr__(self) -> str:
        return f"<Router {' '.join(self._file.backends)}>"

    @classmethod
    def from_file(
        cls, path: str | Path, *, tuning: RouterTuning | None = None, clock: Clock | None = None
    ) -> Router:
        """Make a router from a routing file; needs the extra ``sandboxio-core[routing]``.

        Args:
            path: The file, YAML.
            tuning: Bounds other than the default ones.
            clock: What bounds and circuits are measured by; the host's if ``None``.

        Raises:
            ConfigurationError: Something in it is wrong; the message names the line and the fix.

        Example:
            >>> from sandboxio.routing import Router
            >>> def load() -> Router:
            ...     return Router.from_file("sandboxio-routing.yaml")
        """
        file = load(read_yaml(Path(path)))
        return cls(file, registry=default_registry(), tuning=tuning, clock=clock)

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, object],
        *,
        tuning: RouterTuning | None = None,
        clock: Clock | None = None,
    ) -> Router:
        """Make a router from the structure of a routing file.

        Raises:
            ConfigurationError: Something in it is wrong; the message names the key and the fix.

        Example:
            >>> from sandboxio.routing import Router
            >>> Router.from_dict(
            ...     {
            ...         "backends": {"here": {"adapter": "local"}},
            ...         "isolation_classes": {"standard": {"backend": "here"}},
            ...         "default_class": "standard",
            ...     }
            ... )
            <Router here>
        """
        file = load(from_data(data))
        return cls(file, registry=default_registry(), tuning=tuning, clock=clock)

    @classmethod
    def default(cls, *, tuning: RouterTuning | None = None, clock: Clock | None = None) -> Router:
        """Make the router of ``auto://``: Docker if its daemon answers, else local.

        Example:
            >>> from sandboxio.routing import Router
            >>> Router.default()
            <Router docker local>
        """
        return cls.from_dict(DEFAULT, tuning=tuning, clock=clock)

    async def create(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        needs: Capability = NOTHING,
        require_isolation: IsolationTier | None = None,
        region: str | None = None,
        backend: str | None = None,
        template: str | None = None,
        resources: Resources = Resources(),
        network: NetworkPolicy | None = None,
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> RoutedSandbox:
        """Create a sandbox on the best backend that can have one now.

        Candidates are tried in order. Only failures of capacity, reachability or the provider move
        on to the next, and what a lost create left behind is destroyed first.

        Args:
            labels: What the file's ``routes`` match on.
            needs: Capabilities that the backend must declare, besides what the arguments need.
            require_isolation: Least tier; the class of the request may raise it.
            region: Where the sandbox shall be.
            backend: The one entry to use: no routing, and its error is the caller's.
            template: Image or template, if the entry names none.
            resources: Caps; those that are not named are the policy's, or the backend's.
            network: Egress policy; the file's if ``None``, and denied if that has none.
            env: Environment of every command.
            secrets: Like ``env``, and masked everywhere.
            timeout: Seconds that creating may take in all, and that the sandbox then lives; the
                file's if ``None``, or else 300.
            metadata: Labels stored with the sandbox.

        Raises:
            NoRoute: No candidate is left; it lists each with its reason.
            ConfigurationError: The request is wrong, or asks for more than the policy allows.
            AuthError: The credential of the best candidate is missing or refused.
            CreateTimeout: No backend had a sandbox ready in time.
        """
        request = RouteRequest(
            labels=combined_labels(labels),
            needs=needs,
            require_isolation=require_isolation,
            region=region,
            backend=backend,
        )
        arguments = CreateArguments(
            template=template,
            resources=resources,
            network=network,
            env=env,
            secrets=secrets,
            timeout=timeout,
            metadata=metadata,
        )
        return await self.create_for(request, arguments)

    async def create_for(self, request: RouteRequest, arguments: CreateArguments) -> RoutedSandbox:
        """Create a sandbox for a request that was made before; what `create` does."""
        checked = governed(self._file.policy, arguments)
        return await Creating(
            self._lanes, self._survey(request, checked), checked, self._clock, self._tuning
        ).run()

    def route_for(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        needs: Capability = NOTHING,
        require_isolation: IsolationTier | None = None,
        region: str | None = None,
        backend: str | None = None,
        **tags: str,
    ) -> Route:
        """Return a target for ``sandboxio.create()``; nothing is asked or created by this.

        Args:
            labels: What the file's ``routes`` match on.
            needs: As for `create`.
            require_isolation: As for `create`.
            region: As for `create`.
            backend: As for `create`.
            **tags: More labels, as keywords.

        Example:
            >>> import sandboxio
            >>> async def main(router: sandboxio.routing.Router) -> None:
            ...     route = router.route_for(tool="run_python", tenant_tier="enterprise")
            ...     async with await sandboxio.create(route) as sandbox:
            ...         await sandbox.run(["true"])
        """
        request = RouteRequest(
            labels=combined_labels(labels, tags),
            needs=needs,
            require_isolation=require_isolation,
            region=region,
            backend=backend,
        )
        self._check_pin(request)
        return Route(self, request)

    def explain(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        needs: Capability = NOTHING,
        require_isolation: IsolationTier | None = None,
        region: str | None = None,
        backend: str | None = None,
        network: NetworkPolicy | None = None,
        **tags: str,
    ) -> RouteDecision:
        """Return what `create` would decide by what is known now; asks and creates nothing.

        The health of a backend is part of it if it was asked in the last seconds; see `examine`.

        Args:
            labels: What the file's ``routes`` match on.
            needs: As for `create`.
            require_isolation: As for `create`.
            region: As for `create`.
            backend: As for `create`.
            network: As for `create`; a backend that cannot enforce it is rejected.
            **tags: More labels, as keywords.

        Example:
            >>> from sandboxio.routing import Router
            >>> Router.default().explain(tool="run_python").rule
            'default_class'
        """
        route = self.route_for(
            labels=labels,
            needs=needs,
            require_isolation=require_isolation,
            region=region,
            backend=backend,
            **tags,
        )
        return self._survey_of(route.request, network).known()

    async def examine(
        self, request: RouteRequest, *, network: NetworkPolicy | None = None
    ) -> RouteDecision:
        """Return what `create` would decide, after asking every candidate how it is.

        Example:
            >>> from sandboxio.routing import Router, RouteRequest
            >>> async def show(router: Router) -> None:
            ...     print(await router.examine(RouteRequest(labels={"tool": "run_python"})))
        """
        return await self._survey_of(request, network).decide({}, ask_all=True)

    def status(self) -> tuple[EntryStatus, ...]:
        """Return how each entry is: its circuit, what it last said, and why it cannot be used.

        Asks nobody. `doctor` shows it.
        """
        return self._lanes.status()

    def _survey_of(self, request: RouteRequest, network: NetworkPolicy | None) -> Survey:
        return self._survey(request, governed(self._file.policy, CreateArguments(network=network)))

    def _survey(self, request: RouteRequest, arguments: CreateArguments) -> Survey:
        self._check_pin(request)
        needed = request.needs | enforced_by(arguments)
        return Survey(self._file, self._lanes, request, needed)

    def _check_pin(self, request: RouteRequest) -> None:
        name = request.backend
        if name is None:
            return
        entry = self._file.backends.get(name)
        if entry is None:
            raise ConfigurationError(
                f"The routing file has no backend {name!r}.",
                hint=f"Pin one of: {', '.join(self._file.backends)}.",
            )
        if not entry.enabled:
            raise ConfigurationError(
                f"The backend {name!r} is disabled in the routing file.",
                hint="Pin another one, or enable it there.",
            )


@dataclass(frozen=True, repr=False)
class Route:
    """A request and the router that takes it; a target for ``sandboxio.create()``.

    Attributes:
        router: The router.
        request: What it decides by.

    Example:
        >>> from sandboxio.routing import Router
        >>> Router.default().route_for(tool="run_python")
        <Route {'tool': 'run_python'}>
    """

    router: Router
    request: RouteRequest

    def __repr__(self) -> str:
        return f"<Route {dict(self.request.labels)}>"

    def requiring(self, tier: IsolationTier | None) -> Route:
        """Return it with a least tier of at least `tier`."""
        own = self.request.require_isolation
        if tier is None or (own is not None and own.satisfies(tier)):
            return self
        return replace(self, request=replace(self.request, require_isolation=tier))

    async def create(self, arguments: CreateArguments) -> RoutedSandbox:
        """Create the sandbox."""
        return await self.router.create_for(self.request, arguments)
