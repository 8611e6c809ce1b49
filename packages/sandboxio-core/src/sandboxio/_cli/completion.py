"""``sandboxio completion``: what makes Tab work in bash, zsh and fish, by argcomplete."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable

from ..errors import BackendNotInstalled, SandboxError
from ..spi import CommandPlugin

__all__ = ["COMMAND", "asked", "complete"]

SHELLS = ("bash", "zsh", "fish")

PROGRAMS = ("sandboxio", "sbx")

INSTALL = 'uv pip install "sandboxio[completion]"'


def asked() -> bool:
    """Whether this process was started by a shell that completes a line."""
    return "_ARGCOMPLETE" in os.environ


def complete(build: Callable[[list[str]], argparse.ArgumentParser]) -> None:
    """Tell the shell how its line can go on, and end the process.

    Args:
        build: Makes the parser for the words that are there already.
    """
    try:
        import argcomplete
    except ImportError:
        sys.exit(1)  # the extra was removed since; a shell shows nothing of what we would say
    words = os.environ.get("COMP_LINE", "").split()[1:]
    try:
        parser = build(words)
    except SandboxError:
        parser = build([])  # the command that is meant is broken; there are others
    argcomplete.autocomplete(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads it")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(options: argparse.Namespace) -> int:
    """Print what the shell is to read."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError as error:
        raise BackendNotInstalled(
            "Completion needs argcomplete, which is not installed.", hint=INSTALL
        ) from error
    script = shellcode(list(PROGRAMS), shell=options.shell)
    report = {"shell": options.shell, "programs": list(PROGRAMS), "script": script}
    print(json.dumps(report, indent=2) if options.json else report["script"])
    return 0


COMMAND = CommandPlugin(
    name="completion",
    summary="print what makes the Tab key complete commands, options and backends in a shell",
    description=f"Needs the extra: {INSTALL}",
    add_arguments=add_arguments,
    run=run,
    examples=(
        'eval "$(sandboxio completion bash)"    # in ~/.bashrc',
        'eval "$(sandboxio completion zsh)"     # in ~/.zshrc, after compinit',
        "sandboxio completion fish | source     # in ~/.config/fish/config.fish",
    ),
)
