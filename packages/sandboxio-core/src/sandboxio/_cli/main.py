"""From arguments to a command, and from what becomes of it to an exit code.

Exit codes are stable: 0 success, 1 a problem was found or the command failed, 2 usage, 130
interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from ..errors import SandboxError
from . import completion
from .parsing import build_parser
from .render import plain

__all__ = ["main"]

PROBLEM = 1
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    if completion.asked():
        completion.complete(build_parser)
    words = sys.argv[1:] if arguments is None else list(arguments)
    debug = os.environ.get("SBX_DEBUG") == "1"
    if debug:
        _pretty_tracebacks()
    _print_anything()
    try:
        options = build_parser(words).parse_args(words)
        code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read it has enough. What is still buffered must not fail once more at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PROBLEM
    except SandboxError as error:
        if debug:
            raise
        print(f"sandboxio: {plain(str(error))}", file=sys.stderr)
        return PROBLEM
    return code


def _print_anything() -> None:
    """Let a terminal that has not all characters show the others as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _pretty_tracebacks() -> None:
    try:
        from rich.traceback import install
    except ImportError:
        return
    install()


if __name__ == "__main__":
    sys.exit(main())
