"""An MCP server that runs a model's code in any sandboxio sandbox."""
