"""What a wheel tells about the command that it adds to ``sandboxio``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

__all__ = ["CommandPlugin"]


@dataclass(frozen=True, kw_only=True)
class CommandPlugin:
    """A command as its wheel registers it; making one does no I/O and loads no vendor SDK.

    A wheel registers it with an entry point of the group ``sandboxio.commands``, whose name is
    the command's, and which names a module with the hook ``sandboxio_command``::

        [project.entry-points."sandboxio.commands"]
        mcp = "sandboxio_mcp._plugin"

    The entry point is loaded when somebody runs that command, or asks for its help or its
    completion, and at no other time: a broken one harms nothing but its own command.

    Attributes:
        name: The word after ``sandboxio``, equal to the entry point's name.
        summary: One line for ``sandboxio --help``, and the first of the command's own help.
        add_arguments: Adds the command's arguments to its parser. ``--json`` and the names
            ``command`` and ``run`` are taken.
        run: Runs the command and returns its exit code: 0 for success, 1 for a problem, 2 for
            wrong usage. A `SandboxError` that it raises is printed, and is 1; Ctrl-C is 130.
            It is called outside of any event loop.
        description: The rest of its help, in paragraphs.
        examples: Lines to copy; its help ends with them. At least one.

    Example:
        >>> from sandboxio.spi import CommandPlugin, hookimpl
        >>> @hookimpl
        ... def sandboxio_command() -> CommandPlugin:
        ...     from sandboxio_mcp import cli  # must be cheap, too
        ...
        ...     return CommandPlugin(
        ...         name="mcp",
        ...         summary="serve sandboxes to a model over MCP",
        ...         add_arguments=cli.add_arguments,
        ...         run=cli.run,
        ...         examples=("sandboxio mcp --backend docker://",),
        ...     )
    """

    name: str
    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    examples: tuple[str, ...]
    description: str = ""
