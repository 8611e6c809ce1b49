"""``python -m sandboxio.mcp``: another name of the wheel ``sandboxio-mcp``."""
