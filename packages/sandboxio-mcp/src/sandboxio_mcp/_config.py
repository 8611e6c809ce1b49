"""What is fixed when the server starts; no tool and no request changes any of it."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

from sandboxio.errors import ConfigurationError
from sandboxio.models import IsolationTier, NetworkPolicy, Resources

__all__ = [
    "DEFAULT_CALL_TIMEOUT",
    "DEFAULT_IDLE",
    "DEFAULT_MAX_SESSIONS",
    "DEFAULT_PROGRESS_INTERVAL",
    "DEFAULT_START_TIMEOUT",
    "HttpConfig",
    "ServerConfig",
    "WorkingFile",
    "is_loopback",
    "working_file",
]

DEFAULT_CALL_TIMEOUT = 120.0
"""Seconds that one tool call may take; what takes longer belongs into the background."""

DEFAULT_LIFETIME = 3600.0
"""Seconds that a sandbox lives. A chat outlasts the five minutes of ``sandboxio.create()``."""

DEFAULT_IDLE = 900.0
"""Seconds without a call after which a sandbox, or an HTTP session, is ended."""

DEFAULT_START_TIMEOUT = 300.0
"""Seconds that starting a sandbox may take; the pull of an image is the longest part of it."""

DEFAULT_PROGRESS_INTERVAL = 5.0
"""Seconds between two progress notifications. Clients give up after 60 s without one."""

DEFAULT_MAX_SESSIONS = 8
"""HTTP sessions at once, each with a sandbox of its own."""

SHORTEST_TOKEN = 16
"""Characters; a shorter token could be guessed over the network."""


@dataclass(frozen=True)
class WorkingFile:
    """A file of the host that every new sandbox gets a copy of.

    Attributes:
        local: Path on the host.
        remote: Path in the sandbox; a relative one starts at its working directory.
    """

    local: Path
    remote: str


def working_file(text: str) -> WorkingFile:
    """Read ``LOCAL[:REMOTE]``.

    Raises:
        ConfigurationError: ``LOCAL`` is not a regular file, or is a link.
    """
    local, _, remote = text.partition(":")
    path = Path(local)
    if path.is_symlink() or not path.is_file():
        raise ConfigurationError(
            f"The working file {local!r} is not a regular file.",
            hint="Name a file that exists: --file LOCAL[:REMOTE]. Links are not followed.",
        )
    return WorkingFile(path.absolute(), remote or path.name)


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """What every sandbox of this server is made with, and what bounds its calls.

    Attributes:
        backend: DSN; ``None`` for what ``sandboxio.create()`` takes, which is Docker.
        template: Image or template; the backend's default if ``None``.
        network: Egress policy; ``None`` for the default, which denies everything.
        resources: Caps.
        require_isolation: Least tier that is accepted.
        call_timeout: Seconds that one tool call may take.
        lifetime: Seconds that a sandbox lives; ``None`` for what the DSN says, or an hour.
        start_timeout: Seconds that starting a sandbox may take.
        idle: Seconds without a call after which a sandbox is ended.
        progress_interval: Seconds between progress notifications.
        files: Files of the host that are copied into every new sandbox.
    """

    backend: str | None = None
    template: str | None = None
    network: NetworkPolicy | None = None
    resources: Resources = Resources()
    require_isolation: IsolationTier | None = None
    call_timeout: float = DEFAULT_CALL_TIMEOUT
    lifetime: float | None = None
    start_timeout: float = DEFAULT_START_TIMEOUT
    idle: float = DEFAULT_IDLE
    progress_interval: float = DEFAULT_PROGRESS_INTERVAL
    files: tuple[WorkingFile, ...] = ()

    def __post_init__(self) -> None:
        for name in ("call_timeout", "start_timeout", "idle", "progress_interval"):
            _check_seconds(name, getattr(self, name))
        if self.lifetime is not None:
            _check_seconds("lifetime", self.lifetime)

    @property
    def sandbox_lifetime(self) -> float | None:
        """Seconds to ask of ``create()``; ``None`` where the DSN has said it already."""
        if self.lifetime is not None:
            return self.lifetime
        query = (self.backend or "").partition("?")[2]
        return None if "timeout" in parse_qs(query, keep_blank_values=True) else DEFAULT_LIFETIME


@dataclass(frozen=True, kw_only=True)
class HttpConfig:
    """Where the server listens, and whom it serves.

    Attributes:
        host: Address to bind.
        port: Port to bind; 0 for any that is free.
        token: What a client must send as ``Authorization: Bearer``; ``None`` for no token, which
            only a loopback address is allowed.
        allowed_hosts: Names besides ``host`` and the loopback ones that a Host header may have.
        allowed_origins: Values that an Origin header may have; a browser sends one.
        max_sessions: Sessions at once, each with a sandbox of its own.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_sessions: int = DEFAULT_MAX_SESSIONS

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise ConfigurationError(
                f"Listening on {self.host!r} lets others than this machine reach the server, and "
                "there is no token.",
                hint="Set SBX_MCP_TOKEN (or --token-file), or listen on 127.0.0.1.",
            )
        if self.token is not None and not _is_good_token(self.token):
            raise ConfigurationError(
                f"The token must have at least {SHORTEST_TOKEN} characters, all of them printable "
                "ASCII without spaces.",
                hint="For example: python3 -c 'import secrets; print(secrets.token_urlsafe())'",
            )
        if not 0 <= self.port <= 65535:
            raise ConfigurationError("The port must be between 0 and 65535.")
        if self.max_sessions < 1:
            raise ConfigurationError("There must be room for at least one session.")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # another name may resolve to anything


def _is_good_token(token: str) -> bool:
    return len(token) >= SHORTEST_TOKEN and all("!" <= character <= "~" for character in token)


def _check_seconds(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ConfigurationError(f"{name} must be a number of seconds above 0.")
