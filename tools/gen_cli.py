"""Write docs/reference/cli.md from the parsers of the command line.

    python tools/gen_cli.py [--write]

Without ``--write`` it tells whether the page is out of date, and exits 1 then.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any, Final

from sandboxio._cli.parsing import build_parser

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"

HEAD: Final = """\
# Command line

`sandboxio-core` brings the command `sandboxio`. Other wheels add commands to it.

Exit codes are stable:

| Exit code | |
|---|---|
| 0 | all is well |
| 1 | a problem was found, or the command failed |
| 2 | the arguments are wrong |
| 130 | interrupted |

`--json` prints the same as data. Colours appear on a terminal only, and not where `NO_COLOR` is set. `SBX_DEBUG=1` shows
whole tracebacks. Secrets are masked, as everywhere.
"""


def commands() -> list[tuple[str, argparse.ArgumentParser]]:
    """Return every command with its parser, in the order of the help."""
    names = list(_commands_of(build_parser([])))
    # A command of another wheel has its arguments only in the parser that is made for it.
    return [(name, _commands_of(build_parser([name]))[name]) for name in names]


def _commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions: list[Any] = parser._actions
    for action in actions:
        if action.dest == "command":
            parsers: dict[str, argparse.ArgumentParser] = action.choices
            return parsers
    return {}


def page() -> str:
    """Return the page: by our own layout, because argparse's changes from Python to Python."""
    parts = [command(name, parser) for name, parser in commands()]
    return "\n".join([HEAD, *parts, "<!-- Made by tools/gen_cli.py from the parsers. -->\n"])


def command(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the part of one command."""
    rows = [row(action) for action in parser._actions if action.dest != "help"]
    examples = [line.strip() for line in (parser.epilog or "").splitlines()[1:]]
    table = "\n".join(["| Argument | |", "|---|---|", *rows, ""]) if rows else ""
    copied = "\n".join(line for line in examples if line)
    return f"""\
## sandboxio {name}

{paragraphs(parser.description or "")}

{table}
```text
{copied}
```
"""


def paragraphs(text: str) -> str:
    """Return a description as Markdown: what is indented is shown as it is."""
    parts: list[str] = []
    for part in re.split(r"\n{2,}", text.strip("\n")):
        if not part.strip():
            continue
        lines = part.splitlines()
        if all(line.startswith(" ") for line in lines):
            parts.append("\n".join(["```text", *(line.strip() for line in lines), "```"]))
        else:
            parts.append(" ".join(line.strip() for line in lines))
    return "\n\n".join(parts)


def row(action: argparse.Action) -> str:
    """Return the line of one argument."""
    names = ", ".join(action.option_strings)
    # A bar would end the cell, and inside of code nothing can escape it.
    choices = " or ".join(map(str, action.choices)) if action.choices else ""
    value = "" if action.nargs == 0 else str(action.metavar or choices or action.dest.upper())
    shown = " ".join(filter(None, [names, value]))
    said = (action.help or "").replace("%%", "%").replace("|", "&#124;")
    return f"| `{shown}` | {said} |"


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is out of date."""
    text = page()
    if "--write" in arguments:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print("docs/reference/cli.md is out of date: python tools/gen_cli.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
