"""LangChain and LangGraph: tools that run a model's code or commands in a sandbox.

::

    from langchain.agents import create_agent
    from sandboxio.integrations.langchain import make_code_tool

    async with await sandboxio.create("local://") as sandbox:
        agent = create_agent(model, tools=[make_code_tool(sandbox)])
        await agent.ainvoke({"messages": [{"role": "user", "content": "What is 2**100?"}]})
"""

from __future__ import annotations

from ._model_text import missing
from ._model_tools import CALL_TIMEOUT, OUTPUT_LIMIT, ModelTools, SandboxSource

try:
    from langchain_core.tools import BaseTool, StructuredTool
except ImportError as error:
    raise missing("langchain-core", "langchain", error) from error

__all__ = ["make_code_tool", "make_command_tool"]


def make_code_tool(
    sandbox: SandboxSource, *, timeout: float = CALL_TIMEOUT, max_output: int = OUTPUT_LIMIT
) -> BaseTool:
    """Return the tool ``run_python``.

    Args:
        sandbox: A sandbox of `create` (then the agent has to be run with ``ainvoke``), one of
            `create_sync` (for ``invoke`` and ``ainvoke``), or a function that makes a new one for
            each call (for both). A sandbox that you pass is never closed by the tool.
        timeout: Seconds for one call.
        max_output: Characters of output that one call hands to the model.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    tools = ModelTools(sandbox, timeout=timeout, max_output=max_output)
    return StructuredTool.from_function(
        # Without a function LangChain itself says that the tool cannot be called without a loop.
        func=tools.run_python_sync if tools.can_block else None,
        coroutine=tools.run_python,
        name="run_python",
        description=tools.about_python,
    )


def make_command_tool(
    sandbox: SandboxSource, *, timeout: float = CALL_TIMEOUT, max_output: int = OUTPUT_LIMIT
) -> BaseTool:
    """Return the tool ``run_command``; see `make_code_tool` for the arguments."""
    tools = ModelTools(sandbox, timeout=timeout, max_output=max_output)
    return StructuredTool.from_function(
        func=tools.run_command_sync if tools.can_block else None,
        coroutine=tools.run_command,
        name="run_command",
        description=tools.about_command,
    )
