"""An MCP server that runs a model's code in any sandboxio sandbox.

    sandboxio mcp --backend local://

`build_server` and `ServerConfig` are for a program that serves it in its own way.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from ._config import HttpConfig as HttpConfig
    from ._config import ServerConfig as ServerConfig
    from ._config import WorkingFile as WorkingFile
    from ._server import build_server as build_server

_LAZY = {
    "HttpConfig": "._config",
    "ServerConfig": "._config",
    "WorkingFile": "._config",
    "build_server": "._server",
}

__all__ = ["HttpConfig", "ServerConfig", "WorkingFile", "build_server"]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LAZY[name], __name__), name)
    return value
