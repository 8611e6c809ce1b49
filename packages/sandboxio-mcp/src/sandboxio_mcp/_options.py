"""The arguments of the server, the variables that may take their place, and what they say."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, cast

from sandboxio.errors import ConfigurationError
from sandboxio.models import IsolationTier, NetworkPolicy, Resources

from ._config import (
    DEFAULT_CALL_TIMEOUT,
    DEFAULT_IDLE,
    DEFAULT_MAX_SESSIONS,
    DEFAULT_PROGRESS_INTERVAL,
    DEFAULT_START_TIMEOUT,
    HttpConfig,
    ServerConfig,
    working_file,
)

__all__ = ["add_arguments", "http_config", "server_config"]

TOKEN_VARIABLE = "SBX_MCP_TOKEN"  # noqa: S105 - the name of a variable, not a token


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the server's arguments to a parser."""
    sandbox = parser.add_argument_group("the sandbox")
    _add(
        sandbox.add_argument,
        "--backend",
        "DSN",
        "where it runs, such as local:// or docker:// (default)",
    )
    _add(sandbox.add_argument, "--template", "NAME", "image or template")
    _add(
        sandbox.add_argument,
        "--egress",
        "POLICY",
        "deny (default) or allow",
        choices=("deny", "allow"),
    )
    _add(
        sandbox.add_argument, "--allow", "HOST,…", "what may be reached although the rest is denied"
    )
    _add(sandbox.add_argument, "--cpu", "CORES", "cap", kind=float)
    _add(sandbox.add_argument, "--memory-mb", "MIB", "cap, swap included", kind=int)
    _add(
        sandbox.add_argument, "--disk-mb", "MIB", "cap, where the backend can enforce one", kind=int
    )
    _add(sandbox.add_argument, "--processes", "N", "cap", kind=int)
    _add(
        sandbox.add_argument,
        "--require-isolation",
        "TIER",
        "least tier that is accepted",
        choices=tuple(tier.value for tier in IsolationTier if tier.rank),
    )
    sandbox.add_argument(
        "--file",
        action="append",
        metavar="LOCAL[:REMOTE]",
        help="copy this file into every new sandbox; may be repeated",
    )
    time = parser.add_argument_group("time, in seconds")
    _add_seconds(time.add_argument, "--timeout", "one tool call", DEFAULT_CALL_TIMEOUT)
    _add(
        time.add_argument, "--lifetime", "S", "a sandbox (default: the DSN's, or 3600)", kind=float
    )
    _add_seconds(time.add_argument, "--start-timeout", "starting a sandbox", DEFAULT_START_TIMEOUT)
    _add_seconds(time.add_argument, "--idle", "a sandbox without a call", DEFAULT_IDLE)
    _add_seconds(
        time.add_argument,
        "--progress-interval",
        "between two progress notifications",
        DEFAULT_PROGRESS_INTERVAL,
    )
    transport = parser.add_argument_group("transport")
    _add(
        transport.add_argument,
        "--transport",
        "NAME",
        "stdio (default) or streamable-http",
        choices=("stdio", "streamable-http"),
    )
    _add(
        transport.add_argument,
        "--host",
        "ADDRESS",
        "default: 127.0.0.1; any but loopback needs a token",
    )
    _add(
        transport.add_argument,
        "--port",
        "PORT",
        "default: 8000; 0 takes one that is free",
        kind=int,
    )
    _add(
        transport.add_argument,
        "--token-file",
        "PATH",
        f"file with the token that clients must send (or set {TOKEN_VARIABLE})",
    )
    _add(
        transport.add_argument,
        "--allowed-host",
        "NAME,…",
        "further names that a Host header may have",
    )
    _add(transport.add_argument, "--allowed-origin", "ORIGIN,…", "browser origins that may connect")
    _add(
        transport.add_argument,
        "--max-sessions",
        "N",
        f"HTTP sessions at once (default: {DEFAULT_MAX_SESSIONS})",
        kind=int,
    )
    _add(
        transport.add_argument,
        "--log-level",
        "LEVEL",
        "what stderr tells (default: warning)",
        choices=("debug", "info", "warning", "error"),
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="read the configuration, load everything, and end without serving",
    )


def _add(
    add: Callable[..., object],
    flag: str,
    metavar: str,
    text: str,
    *,
    kind: type[str] | type[int] | type[float] = str,
    choices: tuple[str, ...] | None = None,
) -> None:
    def read(text: str) -> str | int | float:
        value = kind(text)
        if choices is not None and value not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(choices)}")
        return value

    # For the message about what is no number.
    read.__name__ = kind.__name__
    # argparse reads a default that is text as it reads an argument, though it checks no choices, and
    # leaves None alone.
    variable = "SBX_MCP_" + flag.lstrip("-").replace("-", "_").upper()
    add(
        flag,
        type=read,
        choices=choices,
        metavar=metavar,
        help=text,
        default=os.environ.get(variable) or None,
    )


def _add_seconds(add: Callable[..., object], flag: str, text: str, default: float) -> None:
    _add(add, flag, "S", f"{text} (default: {default:g})", kind=float)


def server_config(given: argparse.Namespace) -> ServerConfig:
    """Return what the arguments say of sandboxes.

    Raises:
        ConfigurationError: It cannot be.
    """
    tier = given.require_isolation
    return ServerConfig(
        backend=given.backend,
        template=given.template,
        network=_network(given.egress, _listed(given.allow)),
        resources=Resources(
            cpu=given.cpu,
            memory_mb=given.memory_mb,
            disk_mb=given.disk_mb,
            processes=given.processes,
        ),
        require_isolation=None if tier is None else IsolationTier(tier),
        call_timeout=_or(given.timeout, DEFAULT_CALL_TIMEOUT),
        lifetime=given.lifetime,
        start_timeout=_or(given.start_timeout, DEFAULT_START_TIMEOUT),
        idle=_or(given.idle, DEFAULT_IDLE),
        progress_interval=_or(given.progress_interval, DEFAULT_PROGRESS_INTERVAL),
        files=tuple(working_file(text) for text in given.file or ()),
    )


def http_config(given: argparse.Namespace) -> HttpConfig:
    """Return what the arguments, and the variable with the token, say of HTTP.

    Raises:
        ConfigurationError: It cannot be, or would let in everybody.
    """
    return HttpConfig(
        host=given.host or "127.0.0.1",
        port=8000 if given.port is None else given.port,
        token=_token(given.token_file),
        allowed_hosts=_listed(given.allowed_host),
        allowed_origins=_listed(given.allowed_origin),
        max_sessions=DEFAULT_MAX_SESSIONS if given.max_sessions is None else given.max_sessions,
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _network(egress: str | None, allow: tuple[str, ...]) -> NetworkPolicy | None:
    if egress is None and not allow:
        return None
    return NetworkPolicy(egress=cast('Literal["deny", "allow"]', egress or "deny"), allow=allow)


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _token(file: str | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        # Without the name: whoever takes the option for the token itself has put it there.
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f"The file of --token-file cannot be read: {reason}.",
            hint="Name a file that holds the token and nothing else.",
        ) from None
