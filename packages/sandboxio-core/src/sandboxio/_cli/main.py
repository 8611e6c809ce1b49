"""Arguments, exit codes, and which command they mean.

Exit codes are stable: 0 success, 1 a problem was found or the command failed, 2 usage, 130
interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from ..errors import SandboxError
from . import demo, route

__all__ = ["main"]


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="sandboxio",
        description="Run untrusted code in any sandbox.",
        epilog="example: sandboxio demo",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"sandboxio-core {metadata.version('sandboxio-core')}",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo.add_parser(commands.add_parser)
    route.add_parser(commands.add_parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = build_parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except SandboxError as error:
        if os.environ.get("SBX_DEBUG") == "1":
            raise
        print(f"sandboxio: {error}", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
