"""``sandboxio mcp``: the command that this wheel adds."""

from __future__ import annotations

from sandboxio.spi import CommandPlugin, hookimpl

from . import cli

__all__ = ["sandboxio_command"]


@hookimpl
def sandboxio_command() -> CommandPlugin:
    """Return the command."""
    return CommandPlugin(
        name="mcp",
        summary="serve sandboxes to a model over MCP",
        add_arguments=cli.add_arguments,
        run=cli.run,
        description=cli.DESCRIPTION,
        examples=(
            "sandboxio mcp --backend local://",
            "sandboxio mcp --backend docker://python:3.12-slim --memory-mb 1024",
            "SBX_MCP_TOKEN=… sandboxio mcp --transport streamable-http --host 0.0.0.0",
        ),
    )
