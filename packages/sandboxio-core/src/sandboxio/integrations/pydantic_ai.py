"""Pydantic AI: tools, and a toolset of both, that run a model's code in a sandbox.

::

    from pydantic_ai import Agent
    from sandboxio.integrations.pydantic_ai import make_toolset

    async with await sandboxio.create("local://") as sandbox:
        agent = Agent(model, toolsets=[make_toolset(sandbox)])
        await agent.run("What is 2**100?")
"""

from __future__ import annotations

from ._model_text import missing
from ._model_tools import CALL_TIMEOUT, OUTPUT_LIMIT, ModelTools, SandboxSource

try:
    from pydantic_ai import FunctionToolset, Tool
except ImportError as error:
    raise missing("pydantic-ai-slim", "pydantic-ai", error) from error

__all__ = ["make_code_tool", "make_command_tool", "make_toolset", "sandbox_tool"]


def make_code_tool(
    sandbox: SandboxSource, *, timeout: float = CALL_TIMEOUT, max_output: int = OUTPUT_LIMIT
) -> Tool[object]:
    """Return the tool ``run_python``.

    Args:
        sandbox: A sandbox of `create` or `create_sync`, which the tool never closes, or a function
            that makes a new one for each call.
        timeout: Seconds for one call.
        max_output: Characters of output that one call hands to the model.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    tools = ModelTools(sandbox, timeout=timeout, max_output=max_output)
    return Tool(
        tools.run_python, takes_ctx=False, name="run_python", description=tools.about_python
    )


def make_command_tool(
    sandbox: SandboxSource, *, timeout: float = CALL_TIMEOUT, max_output: int = OUTPUT_LIMIT
) -> Tool[object]:
    """Return the tool ``run_command``; see `make_code_tool` for the arguments."""
    tools = ModelTools(sandbox, timeout=timeout, max_output=max_output)
    return Tool(
        tools.run_command, takes_ctx=False, name="run_command", description=tools.about_command
    )


def make_toolset(
    sandbox: SandboxSource, *, timeout: float = CALL_TIMEOUT, max_output: int = OUTPUT_LIMIT
) -> FunctionToolset[object]:
    """Return both tools as one toolset; see `make_code_tool` for the arguments."""
    return FunctionToolset(
        [
            make_code_tool(sandbox, timeout=timeout, max_output=max_output),
            make_command_tool(sandbox, timeout=timeout, max_output=max_output),
        ]
    )


sandbox_tool = make_code_tool
"""Another name of `make_code_tool`."""
