"""From a backend's name to a backend."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from importlib import import_module, metadata
from typing import cast

import pluggy

from ..errors import BackendNotFound, BackendNotInstalled, ConfigurationError
from ..models import BackendConfig
from ..protocols import Backend
from ..spi import BackendPlugin
from .hookspecs import PROJECT, Hooks
from .known import INSTALL_HINTS

__all__ = ["Registry", "default_registry"]

GROUP = "sandboxio"

_COMMON = frozenset(field.name for field in fields(BackendConfig))


class Registry:
    """Knows what was registered and what is installed, and keeps one backend per set of options.

    Entry points are loaded one by name, so a broken plugin never stops another.
    """

    def __init__(self) -> None:
        self._registered: dict[str, Callable[[], Backend]] = {}
        self._plugins: dict[str, BackendPlugin] = {}
        self._backends: dict[object, Backend] = {}
        self._lock = threading.RLock()

    def register(self, name: str, target: str | Callable[[], Backend]) -> None:
        """Let `name` mean a backend of the caller's, before anything that is installed."""
        _check_name(name)
        factory = _check_target(target)
        with self._lock:
            self._registered[name] = factory
            self._backends.pop(name, None)

    def installed(self) -> tuple[str, ...]:
        """Names of installed backends, from metadata alone; nothing is imported."""
        return tuple(sorted({point.name for point in metadata.entry_points(group=GROUP)}))

    def names(self) -> tuple[str, ...]:
        """Every name that resolves."""
        return tuple(sorted({*self._registered, *self.installed()}))

    def is_registered(self, name: str) -> bool:
        """Whether the caller registered that name."""
        return name in self._registered

    def plugin(self, name: str) -> BackendPlugin:
        """Load the plugin of an installed backend.

        Raises:
            BackendNotFound: There is none, or it cannot be loaded.
            BackendNotInstalled: It is known, and its wheel is missing.
        """
        with self._lock:
            if name not in self._plugins:
                self._plugins[name] = self._load(name)
            return self._plugins[name]

    def _load(self, name: str) -> BackendPlugin:
        if name not in self.installed():
            raise self._missing(name)
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(Hooks)
        try:
            manager.load_setuptools_entrypoints(GROUP, name=name)
            manager.check_pending()
            plugin = manager.hook.sandboxio_backend()
        except Exception as error:
            raise BackendNotFound(
                f"The plugin of the {name!r} backend cannot be loaded: {error}",
                hint=f"Reinstall or remove the wheel that brings {name!r}.",
            ) from error
        if not isinstance(plugin, BackendPlugin) or plugin.name != name:
            raise BackendNotFound(
                f"The plugin under the entry point {name!r} does not register a backend of that "
                "name.",
                hint=f"Report it to the author of the wheel that brings {name!r}.",
            )
        return plugin

    def _missing(self, name: str) -> BackendNotFound | BackendNotInstalled:
        if name in INSTALL_HINTS:
            return BackendNotInstalled(
                f"The {name!r} backend is not installed.", hint=INSTALL_HINTS[name]
            )
        there = ", ".join(self.names()) or "none"
        more = "; ".join(INSTALL_HINTS[key] for key in INSTALL_HINTS if key not in self.names())
        return BackendNotFound(
            f"There is no backend {name!r}. Installed: {there}.",
            hint=f"Use one of these, or install one: {more}" if more else None,
        )

    def backend(self, name: str) -> Backend:
        """Return the backend of that name with default options."""
        with self._lock:
            if name in self._registered:
                if name not in self._backends:
                    self._backends[name] = self._registered[name]()
                return self._backends[name]
        return self.configured(self.plugin(name).config())

    def configured(self, config: BackendConfig) -> Backend:
        """Return the backend for a typed config; equal options share one backend and its client."""
        name = config.backend
        with self._lock:
            if name in self._registered:
                return self.backend(name)
            plugin = self.plugin(name)
            options = tuple(
                (field.name, getattr(config, field.name))
                for field in fields(config)
                if field.name not in _COMMON
            )
            key = (name, repr(options))
            if key not in self._backends:
                self._backends[key] = plugin.factory(config)
            return self._backends[key]


@lru_cache(maxsize=1)
def default_registry() -> Registry:
    """Return the registry that all of this process shares; made at first use."""
    return Registry()


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigurationError(f"{name!r} cannot be the name of a backend.")


def _check_target(target: object) -> Callable[[], Backend]:
    if isinstance(target, str):
        module, colon, attribute = target.partition(":")
        if not (module and colon and attribute):
            raise ConfigurationError(f"{target!r} is not of the form 'package.module:Class'.")
        return _Imported(module, attribute)
    if not callable(target):
        raise ConfigurationError("Register a 'package.module:Class' or a callable.")
    return cast("Callable[[], Backend]", target)


class _Imported:
    """A factory that imports its class when it is first called."""

    def __init__(self, module: str, attribute: str) -> None:
        self._module = module
        self._attribute = attribute

    def __call__(self) -> Backend:
        try:
            make: Callable[[], Backend] = getattr(import_module(self._module), self._attribute)
        except (ImportError, AttributeError) as error:
            raise BackendNotFound(
                f"{self._module}:{self._attribute} cannot be imported: {error}",
                hint="Correct what was passed to sandboxio.register().",
            ) from error
        return make()
