"""The hooks that a wheel may implement, under the entry-point group ``sandboxio``.

A hook says what exists and nothing more. It is called once, when the entry point of that name is
first needed; it must not do I/O or load a vendor SDK.
"""

from __future__ import annotations

import pluggy

from ..spi import BackendPlugin

__all__ = ["PROJECT", "Hooks", "hookimpl"]

PROJECT = "sandboxio"

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
