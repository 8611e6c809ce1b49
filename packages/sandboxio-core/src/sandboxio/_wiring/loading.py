"""Asking one installed wheel what it brings, and saying what is wrong with it if it cannot tell."""

from __future__ import annotations

from importlib import metadata
from typing import Literal

import pluggy

from ..errors import BackendNotFound
from .hookspecs import PROJECT, Hooks

__all__ = ["ask", "names_in", "wheels_of"]


def names_in(group: str) -> set[str]:
    """Return the names of a group, from metadata alone; nothing is imported."""
    return {point.name for point in metadata.entry_points(group=group)}


def wheels_of(group: str, name: str) -> dict[str, str]:
    """Return the wheels that bring an entry point of that name, with their versions."""
    return {
        point.dist.name: point.dist.version
        for point in metadata.entry_points(group=group, name=name)
        if point.dist is not None
    }


def ask(
    group: str, name: str, hook: Literal["sandboxio_backend", "sandboxio_command"], what: str
) -> object:
    """Load the entry point of that name, and no other, and return what its hook says.

    Args:
        group: Its group.
        name: Its name.
        hook: Which hook is asked.
        what: What it stands for, as a message says it: ``"backend 'docker'"``.

    Raises:
        BackendNotFound: Several wheels bring one of that name, or it fails.
    """
    wheels = sorted(wheels_of(group, name))
    if len(wheels) > 1:
        raise BackendNotFound(
            f"Several installed wheels bring a {what}: {', '.join(wheels)}.",
            hint="Remove all of them but the one that you mean.",
        )
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(Hooks)
    try:
        manager.load_setuptools_entrypoints(group, name=name)
        manager.check_pending()
        answer: object = getattr(manager.hook, hook)()
    except (Exception, SystemExit) as error:
        # Code of any make: whatever it does, it must not stop what needs it not.
        raise BackendNotFound(
            f"The plugin of the {what} cannot be loaded: {_said(error)}",
            hint=f"Reinstall or remove {wheels[0] if wheels else 'the wheel that brings it'}.",
        ) from error
    return answer


def _said(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
