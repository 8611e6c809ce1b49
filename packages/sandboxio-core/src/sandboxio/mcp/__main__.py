"""Run the MCP server of the wheel ``sandboxio-mcp``."""

from __future__ import annotations

import sys
from importlib import import_module

from ..errors import BackendNotInstalled


def main() -> int:
    """Run the server; return its exit code."""
    try:
        server = import_module("sandboxio_mcp.cli")
    except ModuleNotFoundError as error:
        if error.name != "sandboxio_mcp":
            raise  # the wheel is there, and something that it needs is not
        missing = BackendNotInstalled(
            "sandboxio.mcp needs the wheel sandboxio-mcp.",
            hint='uv pip install "sandboxio[mcp]"',
        )
        sys.stderr.write(f"sandboxio mcp: {missing}\n")
        return 1
    code: int = server.main()
    return code


if __name__ == "__main__":
    sys.exit(main())
