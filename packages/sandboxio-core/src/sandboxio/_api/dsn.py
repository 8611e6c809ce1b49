"""The DSN: ``<backend>://[<template>][?<param>=<value>&…]``, a front end to typed configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from .._observe.redaction import is_credential_name
from .._wiring.registry import Registry
from ..errors import ConfigurationError
from ..models import BackendConfig
from ..spi import DsnParameter

__all__ = ["Dsn", "config_from_dsn", "parse_dsn", "timeout_of"]


@dataclass(frozen=True)
class Dsn:
    """The parts of a DSN, checked for form only."""

    backend: str
    template: str | None
    parameters: Mapping[str, str]


def parse_dsn(text: str) -> Dsn:
    """Split a DSN.

    Raises:
        ConfigurationError: It has no scheme, or a parameter twice, or one that looks like a
            credential.
    """
    backend, separator, rest = text.partition("://")
    if not separator or not backend.isidentifier():
        # The text is not repeated: it may hold a credential that was meant for something else.
        raise ConfigurationError(
            "The target is not a DSN of the form <backend>://[<template>][?timeout=<seconds>].",
            hint="For example: local:// or docker://python:3.12-slim",
        )
    template, _, query = rest.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise ConfigurationError("The query of the DSN cannot be parsed.") from error
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name in parameters:
            raise ConfigurationError(f"The DSN gives {name!r} twice.")
        if is_credential_name(name.replace("-", "_")):
            raise ConfigurationError(
                f"The DSN parameter {name!r} looks like a credential.",
                hint="Credentials come from the provider's environment variable, never from a DSN.",
            )
        parameters[name] = value
    userinfo, at, _ = _DIGEST.sub("", template).rpartition("@")
    if at and ":" in userinfo and not userinfo.startswith("/"):
        raise ConfigurationError(
            "The DSN seems to hold a user name and a password.",
            hint="Credentials come from the provider's environment variable, never from a DSN.",
        )
    return Dsn(backend, template or None, parameters)


_DIGEST = re.compile(r"@[a-z0-9]+:[0-9a-f]{32,}$")
"""The end of an image's name that says which one exactly."""


def config_from_dsn(dsn: Dsn, registry: Registry) -> BackendConfig:
    """Return the typed configuration that a DSN stands for.

    Raises:
        BackendNotFound: There is no such backend.
        ConfigurationError: A parameter is unknown or malformed.
    """
    known = {"timeout": _TIMEOUT}
    config: BackendConfig
    if registry.is_registered(dsn.backend):
        config = RegisteredConfig(name=dsn.backend, template=dsn.template)
    else:
        plugin = registry.plugin(dsn.backend)
        known.update((parameter.name, parameter) for parameter in plugin.dsn_parameters)
        config = plugin.config(template=dsn.template)
    return replace(config, **_values(dsn, known))


@dataclass(frozen=True, kw_only=True)
class RegisteredConfig(BackendConfig):
    """Configuration for a backend that the caller registered: no options of its own."""

    name: str

    @property
    def backend(self) -> str:
        """The registered name."""
        return self.name


_TIMEOUT = DsnParameter(name="timeout", type=float, summary="Lifetime in seconds.")


def timeout_of(dsn: Dsn) -> float | None:
    """Return the one parameter that means the same to every backend, and refuse all others."""
    value: float | None = _values(dsn, {"timeout": _TIMEOUT}).get("timeout")
    return value


def _values(dsn: Dsn, known: Mapping[str, DsnParameter]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in dsn.parameters.items():
        parameter = known.get(name)
        if parameter is None:
            raise ConfigurationError(
                f"The {dsn.backend!r} backend has no DSN parameter {name!r}.",
                hint=f"It has: {', '.join(sorted(known))}. All else is typed configuration.",
            )
        try:
            values[name] = parameter.type(text)
        except ValueError as error:
            raise ConfigurationError(
                f"The DSN parameter {name!r} must be of type {parameter.type.__name__}."
            ) from error
    return values
