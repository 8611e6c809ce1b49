"""`create`, `connect` and `register`: from a target to a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from .._wiring.registry import Registry, default_registry
from ..errors import ConfigurationError, ConnectError
from ..models import BackendConfig, IsolationTier, NetworkPolicy, Resources
from ..protocols import DEFAULT_NETWORK, DEFAULT_TIMEOUT, AsyncSandbox, Backend
from .dsn import config_from_dsn, parse_dsn
from .routed import create_routed, route_of

if TYPE_CHECKING:
    from ..routing import Route

__all__ = ["connect", "create", "default_registry", "register"]


async def create(
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
) -> AsyncSandbox:
    """Create a sandbox.

    Args:
        target: A DSN such as ``"local://"``, a typed configuration such as ``LocalConfig(...)``,
            a route such as ``router.route_for(tool="run_python")``, or ``None`` for Docker.
            ``"auto://"`` takes Docker if its daemon answers, else local.
        template: Image or template.
        resources: Caps; what is not named gets the backend's modest default.
        network: Egress policy; everything is denied by default.
        env: Environment of every command. Nothing of this process's own is inherited.
        secrets: Like ``env``, and masked in every message, record and span.
        timeout: Seconds that creating may take, and that the sandbox then lives at most.
        metadata: Labels stored with the sandbox, such as ``tenant_id`` and ``session_id``.
        require_isolation: Refuse a backend of a lower tier, before anything is created.

    Raises:
        ConfigurationError: An argument is wrong, or the tier is too low.
        BackendNotInstalled: The backend's wheel is missing; the hint installs it.
        NoRoute: The target is a route, and no backend is left for it.
        CapabilityNotSupported: The backend cannot honour an argument.
        CreationError: No usable sandbox came of it.
        CreateTimeout: It took longer than ``timeout``.

    Example:
        >>> import sandboxio
        >>> async def main() -> str:
        ...     async with await sandboxio.create("local://", timeout=60) as sandbox:
        ...         return (await sandbox.run_code("print(6 * 7)")).stdout
    """
    registry = default_registry()
    route = route_of(target, registry)
    if route is not None:
        return await create_routed(
            route,
            template=template,
            resources=resources,
            network=network,
            env=env,
            secrets=secrets,
            timeout=timeout,
            metadata=metadata,
            require_isolation=require_isolation,
        )
    config = _resolve(target, registry)
    return await registry.configured(config).create(
        template=_once("template", template, config.template),
        resources=_once("resources", resources, config.resources),
        # To say "deny" is not the same as to say nothing: it must not become an "allow" unnoticed.
        network=_once("network", network, config.network, given=network is not DEFAULT_NETWORK),
        env=_once("env", env, config.env),
        secrets=_once("secrets", secrets, config.secrets),
        timeout=_once("timeout", timeout, config.timeout),
        metadata=_once("metadata", metadata, config.metadata),
        require_isolation=_once("require_isolation", require_isolation, config.require_isolation),
    )


T = TypeVar("T")


def _once(name: str, value: T, configured: T, *, given: bool = False) -> T:
    """Return the argument or the configured value, whichever is not the default.

    With `given` the argument counts even if it is.
    """
    default = _DEFAULTS[name]
    if value == default and not given:
        return configured
    if configured not in (default, value):
        raise ConfigurationError(
            f"{name} is given twice: in the configuration and as an argument of create().",
            hint=f"Give {name} once.",
        )
    return value


_DEFAULTS = {field.name: field.default for field in fields(BackendConfig)}


def _resolve(target: object, registry: Registry) -> BackendConfig:
    if target is None:
        target = "docker://"
    if isinstance(target, BackendConfig):
        return target
    if not isinstance(target, str):
        raise ConfigurationError(
            "The target must be a DSN, a BackendConfig, a Route or None, not "
            f"{type(target).__name__}."
        )
    return config_from_dsn(parse_dsn(target), registry)


async def connect(sandbox_id: str, *, backend: str | Backend = "docker") -> AsyncSandbox:
    """Attach to a sandbox that exists, perhaps one that another process created.

    Leaving its block lets go of the sandbox and leaves it running; its life belongs to who
    created it. ``kill()`` ends it for everybody.

    Args:
        sandbox_id: The ``id`` of the sandbox.
        backend: The backend's name or DSN, or a backend.

    Raises:
        ConnectError: There is none with that id.

    Example:
        >>> import sandboxio
        >>> async def look(sandbox_id: str) -> str:
        ...     async with await sandboxio.connect(sandbox_id, backend="local") as sandbox:
        ...         return (await sandbox.run(["ls"])).stdout
    """
    if not _is_text(sandbox_id):
        raise ConnectError("The sandbox id must be a str that is not empty.")
    if isinstance(backend, str):
        registry = default_registry()
        text = backend if "://" in backend else f"{backend}://"
        backend = registry.configured(config_from_dsn(parse_dsn(text), registry))
    return await backend.connect(sandbox_id)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def register(name: str, target: str | Callable[[], Backend]) -> None:
    """Let a name mean a backend of your own in every DSN of this process.

    What is registered wins over what is installed, so a test can register a fake as
    ``"docker"``. The callable is called once, at first use.

    Args:
        name: The scheme.
        target: ``"package.module:Class"``, or a callable that returns a backend.

    Example:
        >>> import sandboxio
        >>> sandboxio.register("mine", "my_package.backend:MyBackend")
    """
    default_registry().register(name, target)
