"""From an entry of the routing file to a backend."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .._wiring.registry import Registry
from ..errors import AuthError, ConfigurationError, SandboxError
from ..models import BackendConfig
from ..spi import BackendPlugin
from ._file import BackendEntry
from ._load import REFERENCE

__all__ = ["check_entry", "check_registered", "config_of", "secrets_of"]

_COMMON = frozenset(field.name for field in fields(BackendConfig))


def secrets_of(entry: BackendEntry, plugin: BackendPlugin) -> dict[str, str]:
    """Read the credentials that an entry refers to, by option.

    Raises:
        AuthError: A variable is not set that the entry names, or that its adapter needs.
    """
    named = set(entry.credentials.values())
    for variable in (*entry.credentials.values(), *plugin.credentials):
        if os.environ.get(variable):
            continue
        who = entry.place if variable in named else f"the {entry.adapter!r} backend"
        raise AuthError(
            f"The environment variable {variable}, which {who} reads, is not set.",
            hint=f"Set {variable}.",
        )
    return {key: os.environ[variable] for key, variable in entry.credentials.items()}


def config_of(entry: BackendEntry, registry: Registry, secrets: Mapping[str, str]) -> BackendConfig:
    """Return the configuration that an entry stands for.

    Raises:
        BackendNotInstalled: The wheel of its adapter is missing.
        BackendNotFound: There is no such adapter.
        ConfigurationError: An option is not one of that adapter, or of another type.
    """
    plugin = registry.plugin(entry.adapter)
    values = _checked(entry, plugin)
    options = _options(plugin)
    # A credential that is no option of its own is one that the adapter reads from there itself.
    values.update((key, value) for key, value in secrets.items() if key in options)
    return _made(entry, plugin, values)


def check_entry(entry: BackendEntry, registry: Registry) -> None:
    """Check the options of an entry against its adapter, if that is there; reads no credential.

    Raises:
        ConfigurationError: An option is not one of that adapter, or of another type.
    """
    if registry.is_registered(entry.adapter):
        check_registered(entry)
        return
    if entry.adapter not in registry.installed():
        return  # what its options mean is known to a wheel that is not here
    try:
        registry.plugin(entry.adapter)
    except SandboxError:
        return  # a broken plugin stops no other backend; it is named when it is routed to
    config_of(entry, registry, {})


def check_registered(entry: BackendEntry) -> None:
    """Refuse options for a backend that this program registered: nobody could say what they mean."""
    unknown = [*entry.options, *entry.credentials]
    if unknown:
        raise ConfigurationError(
            f"{entry.place}: unknown key {unknown[0]!r}: the backend {entry.adapter!r} was "
            "registered by this program, and takes no options here.",
            hint="Give the options where it is registered.",
        )


def _options(plugin: BackendPlugin) -> dict[str, Any]:
    """Return the options of an adapter's own, with their types."""
    try:
        hints = get_type_hints(plugin.config)
    except NameError:
        # Annotations that exist for type checkers only; its constructor has the last word anyway.
        hints = {}
    names = [field.name for field in fields(plugin.config) if field.name not in _COMMON]
    return {name: hints.get(name, Any) for name in names}


def _checked(entry: BackendEntry, plugin: BackendPlugin) -> dict[str, object]:
    options = _options(plugin)
    known = sorted({*options, "adapter", "image", "template", "priority", "cost_tier", "regions"})
    for key, value in entry.options.items():
        if key not in options:
            raise ConfigurationError(
                f"{entry.place}: unknown key {key!r} for the {entry.adapter!r} backend.",
                hint=f"It has: {', '.join((*known, 'enabled'))}.",
            )
        if not _fits(value, options[key]):
            raise ConfigurationError(
                f"{entry.place}: {key} must be {_words(options[key])}.",
                hint=f"Correct the value of {key}.",
            )
    for key, variable in entry.credentials.items():
        if key not in options and variable not in plugin.credentials:
            own = ", ".join(REFERENCE + name for name in plugin.credentials)
            raise ConfigurationError(
                f"{entry.place}: the {entry.adapter!r} backend cannot take {key} from {variable}.",
                hint=f"Write {own}." if own else f"It needs no credential: remove {key}.",
            )
    return dict(entry.options)


def _made(entry: BackendEntry, plugin: BackendPlugin, values: dict[str, object]) -> BackendConfig:
    try:
        return plugin.config(template=entry.template, **values)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    except (SandboxError, TypeError, ValueError) as error:
        text = error.message if isinstance(error, SandboxError) else str(error)
        raise ConfigurationError(
            f"{entry.place}: {text}", hint="Correct this entry of the routing file."
        ) from error


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of a simple type; what is no simple type is left to the constructor."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is tuple:
        return isinstance(value, tuple)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (str, bool, NoneType):
        return isinstance(value, hint)
    return True


def _words(hint: Any) -> str:
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(_words(each) for each in get_args(hint) if each is not NoneType)
    if origin is Literal:
        return " or ".join(repr(each) for each in get_args(hint))
    return "a list" if origin is tuple else names.get(hint, str(hint))
