"""The parser of all commands, and how help looks."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Callable, Sequence
from importlib import metadata

from .._wiring.commands import command, command_names, command_summary
from ..spi import CommandPlugin
from . import completion, demo, doctor, reap, route

__all__ = ["CORE", "build_parser"]

CORE: tuple[CommandPlugin, ...] = (
    doctor.COMMAND,
    demo.COMMAND,
    route.COMMAND,
    reap.COMMAND,
    completion.COMMAND,
)
"""The commands of this wheel. No other wheel can replace one."""

AddParser = Callable[..., argparse.ArgumentParser]

EXIT_CODES = "exit codes: 0 success, 1 a problem was found or the command failed, 2 wrong usage, 130 interrupted"


def build_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of all commands.

    Args:
        words: The arguments, for a command of another wheel is loaded only if it is meant.
    """
    parser = argparse.ArgumentParser(
        prog="sandboxio",
        description="Run untrusted code in any sandbox.",
        epilog=f"{_examples(('sandboxio doctor', 'sandboxio demo'))}\n\n{EXIT_CODES}",
        formatter_class=_Help,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"sandboxio-core {metadata.version('sandboxio-core')}",
    )
    add = parser.add_subparsers(dest="command", required=True, metavar="command").add_parser
    own = {plugin.name for plugin in CORE}
    for plugin in CORE:
        _add(add, plugin)
    meant = next((word for word in words if not word.startswith("-")), None)
    for name in command_names():
        if name in own:
            continue
        if name == meant:
            _add(add, command(name))
        else:
            add(name, help=_one_line(command_summary(name)), add_help=False)
    return parser


def _add(add: AddParser, plugin: CommandPlugin) -> None:
    summary = plugin.summary.rstrip(".")
    parser = add(
        plugin.name,
        help=_one_line(summary),
        description="\n\n".join(
            filter(None, (f"{summary[:1].upper()}{summary[1:]}.", plugin.description))
        ),
        epilog=_examples(plugin.examples),
        formatter_class=_Help,
    )
    plugin.add_arguments(parser)
    parser.set_defaults(run=plugin.run)


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("%", "%%")


def _examples(lines: Sequence[str]) -> str:
    return "\n".join(("examples:", *(f"  {line}" for line in lines)))


class _Help(argparse.HelpFormatter):
    """Wraps paragraphs to the terminal, and leaves lines that are meant to be copied as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            "\n".join(_filled(lines, width, indent)) for lines in re.split(r"\n{2,}", text.strip())
        )


def _filled(paragraph: str, width: int, indent: str) -> list[str]:
    """Fill a paragraph; a line that begins with a space stays one line."""
    done: list[str] = []
    prose: list[str] = []

    def flush() -> None:
        if prose:
            done.extend(
                textwrap.wrap(
                    " ".join(prose), width, initial_indent=indent, subsequent_indent=indent
                )
            )
            prose.clear()

    for line in paragraph.splitlines():
        if line.startswith(" "):
            flush()
            done.append(indent + line)
        else:
            prose.append(line.strip())
    flush()
    return done
