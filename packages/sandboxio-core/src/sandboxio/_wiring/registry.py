"""From a backend's name to a backend."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import import_module
from typing import cast

from ..errors import BackendNotFound, BackendNotInstalled, ConfigurationError
from ..models import BackendConfig
from ..protocols import Backend
from ..spi import BackendPlugin
from .hookspecs import BACKENDS
from .known import INSTALL_HINTS
from .loading import ask, names_in

__all__ = ["Registry", "default_registry"]

AUTO = "auto"
"""The name that stands for whichever backend is there."""

_COMMON = frozenset(field.name for field in fields(BackendConfig))


class Registry:
    """Knows what was registered and what is installed, and keeps one backend per set of options.

    Entry points are loaded one by name, so a broken plugin never stops another.
    """

    def __init__(self) -> None:
        self._registered: dict[str, Callable[[], Backend]] = {}
        self._plugins: dict[str, BackendPlugin] = {}
        self._loading: dict[str, threading.RLock] = {}
        self._making: dict[object, threading.RLock] = {}
        self._backends: dict[object, Backend] = {}
        self._redirect: _Redirect | None = None
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
        return tuple(sorted(names_in(BACKENDS) - self._hidden))

    def names(self) -> tuple[str, ...]:
        """Every name that resolves."""
        return tuple(sorted({*self._registered, *self.installed()}))

    def is_registered(self, name: str) -> bool:
        """Whether the caller registered that name."""
        if name in self._registered:
            return True
        redirect = self._redirect
        return redirect is not None and name in redirect.names and name not in self.installed()

    def opened(self) -> tuple[Backend, ...]:
        """Every backend that was made, in order, and what names are redirected to."""
        with self._lock:
            redirect = self._redirect
            return (*self._backends.values(), *(() if redirect is None else (redirect.backend,)))

    @contextmanager
    def redirected(
        self, backend: Backend, *, missing: Iterable[str] = ()
    ) -> Generator[None, None, None]:
        """Let every name of a backend mean this one, in this block; for tests.

        What is registered within the block wins all the same, and is forgotten at its end, when
        all is as it was. The names in `missing` are those of backends that are not installed.
        """
        with self._lock:
            before = self._registered, self._backends, self._redirect
            names = {AUTO, *INSTALL_HINTS, *self.names()} - set(missing)
            self._registered, self._backends = {}, {}
            self._redirect = _Redirect(backend, frozenset(names), frozenset(missing))
        try:
            yield
        finally:
            with self._lock:
                self._registered, self._backends, self._redirect = before

    @property
    def _hidden(self) -> frozenset[str]:
        return frozenset() if self._redirect is None else self._redirect.missing

    def _redirected(self, name: str) -> Backend | None:
        redirect = self._redirect
        return redirect.backend if redirect is not None and name in redirect.names else None

    def plugin(self, name: str) -> BackendPlugin:
        """Load the plugin of an installed backend.

        Raises:
            BackendNotFound: There is none, or it cannot be loaded.
            BackendNotInstalled: It is known, and its wheel is missing.
        """
        with self._lock:
            if name in self._hidden:
                raise self._missing(name)
            loading = self._loading.setdefault(name, threading.RLock())
        # Not under the lock of all: a wheel that hangs while it is loaded holds up no other.
        with loading:
            if name not in self._plugins:
                self._plugins[name] = self._load(name)
            return self._plugins[name]

    def _load(self, name: str) -> BackendPlugin:
        if name not in self.installed():
            raise self._missing(name)
        plugin = ask(BACKENDS, name, "sandboxio_backend", f"backend {name!r}")
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
            redirected = self._redirected(name)
            if redirected is not None:
                return redirected
        return self.configured(self.plugin(name).config())

    def configured(self, config: BackendConfig) -> Backend:
        """Return the backend for a typed config; equal options share one backend and its client."""
        name = config.backend
        with self._lock:
            if name in self._registered or self._redirected(name) is not None:
                return self.backend(name)
        plugin = self.plugin(name)
        options = tuple(
            _key(getattr(config, field.name))
            for field in fields(config)
            if field.name not in _COMMON
        )
        key = (name, type(config), options)
        with self._lock:
            backends = self._backends
            making = self._making.setdefault(key, threading.RLock())
        # As above: a factory loads an SDK, which takes its time.
        with making:
            if key not in backends:
                made = plugin.factory(config)
                with self._lock:
                    backends[key] = made
            return backends[key]


@lru_cache(maxsize=1)
def default_registry() -> Registry:
    """Return the registry that all of this process shares; made at first use."""
    return Registry()


def _key(value: object) -> object:
    """Return what tells an option from others: itself, for a representation may hide a part."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return type(value), value


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


@dataclass(frozen=True)
class _Redirect:
    """What every name means for the time being."""

    backend: Backend
    names: frozenset[str]
    missing: frozenset[str]


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
