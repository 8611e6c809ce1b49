"""Commands that wheels add to ``sandboxio``."""

from __future__ import annotations

from ..errors import BackendNotFound, BackendNotInstalled
from ..spi import CommandPlugin
from .hookspecs import COMMANDS
from .known import KNOWN_COMMANDS
from .loading import ask, names_in, wheels_of

__all__ = ["command", "command_names", "command_summary"]


def command_names() -> tuple[str, ...]:
    """Return the names of commands that are installed or known, from metadata alone."""
    return tuple(sorted(names_in(COMMANDS) | KNOWN_COMMANDS.keys()))


def command_summary(name: str) -> str:
    """Return one line about a command, without loading it."""
    if name in KNOWN_COMMANDS:
        summary, install = KNOWN_COMMANDS[name]
        return summary if name in names_in(COMMANDS) else f"{summary} (not installed: {install})"
    return f"added by {', '.join(sorted(wheels_of(COMMANDS, name))) or 'another wheel'}"


def command(name: str) -> CommandPlugin:
    """Load the plugin of an installed command.

    Raises:
        BackendNotInstalled: It is known, and its wheel is missing.
        BackendNotFound: There is none, or it cannot be loaded.
    """
    if name not in names_in(COMMANDS):
        if name in KNOWN_COMMANDS:
            raise BackendNotInstalled(
                f"The command {name!r} is not installed.", hint=KNOWN_COMMANDS[name][1]
            )
        raise BackendNotFound(f"There is no command {name!r}.", hint="Run: sandboxio --help")
    plugin = ask(COMMANDS, name, "sandboxio_command", f"command {name!r}")
    if not isinstance(plugin, CommandPlugin) or plugin.name != name or not plugin.examples:
        raise BackendNotFound(
            f"The plugin under the entry point {name!r} does not register a command of that name "
            "with an example.",
            hint=f"Report it to the author of the wheel that brings {name!r}.",
        )
    return plugin
