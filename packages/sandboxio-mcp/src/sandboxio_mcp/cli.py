"""How the server starts from its arguments.

Cheap to import: the SDK is loaded when the server runs, not when its help is asked for.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from sandboxio.errors import SandboxError

from ._config import HttpConfig, ServerConfig
from ._options import add_arguments, http_config, server_config
from ._wire import Wire, claim_wire

__all__ = ["DESCRIPTION", "SUMMARY", "add_arguments", "main", "run"]

SUMMARY = "Serve sandboxes to a model over MCP."

DESCRIPTION = (
    "The configuration is fixed when the server starts, and "
    "every option can be given as an environment variable: SBX_MCP_BACKEND for --backend. The "
    "sandbox starts with the first tool call."
)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client leaves or a signal comes; return the exit code.

    Raises:
        SandboxError: The configuration cannot be.
    """
    over_http = arguments.transport == "streamable-http"
    # Before anything else can print: from here on, only protocol reaches stdout.
    wire = None if over_http or arguments.check else claim_wire()
    level = (arguments.log_level or "warning").upper()
    logging.basicConfig(level=level, stream=sys.stderr, format="%(name)s: %(message)s")
    config = server_config(arguments)
    if arguments.check:
        return _check(config, http_config(arguments) if over_http else None)
    if wire is not None:
        return _serve_stdio(config, wire)
    return _serve_http(config, http_config(arguments))


def _check(config: ServerConfig, http: HttpConfig | None) -> int:
    from . import _http as _http  # what it needs is loaded, too
    from ._server import build_server

    server = build_server(config)
    where = "stdio" if http is None else f"{http.host}:{http.port}"
    sys.stdout.write(f"{server.name} {server.version} would serve on {where}\n")
    return 0


@contextmanager
def _nothing_is_garbage() -> Generator[None, None, None]:
    """Load modules without looking through them for garbage, now or later.

    A client waits for this. The SDK makes thousands of models that live as long as the process, and
    an eighth of the time to load it goes into collections that free nothing.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _serve_stdio(config: ServerConfig, wire: Wire) -> int:
    with _nothing_is_garbage():
        import anyio

        from ._server import build_server
        from ._stdio import serve_stdio

    return anyio.run(serve_stdio, build_server(config), wire)


def _serve_http(config: ServerConfig, http: HttpConfig) -> int:
    from functools import partial

    import anyio

    from ._http import listen, serve_http, url_of
    from ._server import build_server

    with listen(http) as listening:
        sys.stderr.write(f"sandboxio mcp: serving {url_of(http, listening)}\n")
        sys.stderr.flush()
        serve = partial(serve_http, idle=config.idle)
        return anyio.run(serve, build_server(config), http, listening)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server from a command line of its own; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sandboxio_mcp", description=f"{SUMMARY} {DESCRIPTION}", allow_abbrev=False
    )
    add_arguments(parser)
    given = parser.parse_args(arguments)
    try:
        return run(given)
    except KeyboardInterrupt:
        return 130
    except SandboxError as error:
        sys.stderr.write(f"sandboxio mcp: {error}\n")
        return 1
