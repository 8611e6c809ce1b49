"""The hooks that a wheel may implement, and the groups of entry points that lead to them.

A hook says what exists and nothing more. It is called once, when the entry point of that name is
first needed; it must not do I/O or load a vendor SDK. Each entry point names a module that
implements the one hook of its group.
"""

from __future__ import annotations

import pluggy

from ..spi import BackendPlugin, CommandPlugin

__all__ = ["BACKENDS", "COMMANDS", "PROJECT", "Hooks", "hookimpl"]

PROJECT = "sandboxio"

BACKENDS = "sandboxio"
"""Group of the entry points whose modules implement `Hooks.sandboxio_backend`."""

COMMANDS = "sandboxio.commands"
"""Group of the entry points whose modules implement `Hooks.sandboxio_command`."""

hookspec = pluggy.HookspecMarker(PROJECT)

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin module as the implementation of a hook."""


class Hooks:
    """The specification of every hook."""

    @hookspec(firstresult=True)
    def sandboxio_backend(self) -> BackendPlugin:
        """Return the backend that this wheel brings.

        Called when the backend is first asked for by name. The entry point's name, the plugin's
        ``name`` and the scheme of its DSN are the same.
        """
        raise NotImplementedError  # a specification; pluggy never calls it

    @hookspec(firstresult=True)
    def sandboxio_command(self) -> CommandPlugin:
        """Return the command that this wheel adds to ``sandboxio``.

        Called when that command is run, or when its help or its completion is asked for. The
        entry point's name and the plugin's ``name`` are the same. A command of core cannot be
        replaced.
        """
        raise NotImplementedError  # a specification; pluggy never calls it
