"""Run the MCP server of the wheel ``sandboxio-mcp``."""

from __future__ import annotations

import runpy
import sys

from ..errors import BackendNotInstalled

try:
    runpy.run_module("sandboxio_mcp", run_name="__main__", alter_sys=True)
except ImportError as error:
    missing = BackendNotInstalled(
        f"The MCP server needs the wheel sandboxio-mcp: {error}",
        hint='uv pip install "sandboxio[mcp]"',
    )
    sys.exit(str(missing))
