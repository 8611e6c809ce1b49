"""LangGraph takes LangChain's tools: another name of `sandboxio.integrations.langchain`."""

from __future__ import annotations

from .langchain import make_code_tool, make_command_tool

__all__ = ["make_code_tool", "make_command_tool"]
