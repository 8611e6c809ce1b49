"""CrewAI: tools that run a model's code in a sandbox.

::

    from crewai import Agent
    from sandboxio.integrations.crewai import make_code_tool

    with sandboxio.create_sync("local://", timeout=600) as sandbox:
        agent = Agent(role="analyst", goal=..., backstory=..., tools=[make_code_tool(sandbox)])

There is no extra for it: CrewAI asks for versions of what it shares with other frameworks that these
do not take, so it is installed by itself, next to the wheels of ours that are needed.
"""

from __future__ import annotations

from typing import Any

from ._model_text import missing_alone
from ._model_tools import CALL_TIMEOUT, OUTPUT_LIMIT, ModelTools, SandboxSource

try:
    from crewai.tools import BaseTool
    from pydantic import PrivateAttr
except ImportError as error:
    raise missing_alone("crewai>=1.15,<2", error) from error

__all__ = ["SbxCodeTool", "SbxCommandTool", "make_code_tool", "make_command_tool"]


def _never(*_: Any) -> bool:
    """Have CrewAI keep no result: what a sandbox answers depends on what happened in it."""
    return False


class SbxCodeTool(BaseTool):
    """The tool ``run_python``; made by `make_code_tool`."""

    _tools: ModelTools = PrivateAttr()

    def __init__(self, tools: ModelTools) -> None:
        super().__init__(name="run_python", description=tools.about_python, cache_function=_never)
        self._tools = tools

    def _run(self, code: str) -> str:
        return self._tools.run_python_sync(code)

    async def _arun(self, code: str) -> str:
        return await self._tools.run_python(code)


class SbxCommandTool(BaseTool):
    """The tool ``run_command``; made by `make_command_tool`."""

    _tools: ModelTools = PrivateAttr()

    def __init__(self, tools: ModelTools) -> None:
        super().__init__(name="run_command", description=tools.about_command, cache_function=_never)
        self._tools = tools

    def _run(self, command: str) -> str:
        return self._tools.run_command_sync(command)

    async def _arun(self, command: str) -> str:
        return await self._tools.run_command(command)


def make_code_tool(
    sandbox: SandboxSource, *, timeout: float = CALL_TIMEOUT, max_output: int = OUTPUT_LIMIT
) -> SbxCodeTool:
    """Return the tool ``run_python``.

    Args:
        sandbox: A sandbox of `create_sync`, which the tool never closes, or a function that makes a
            new one for each call. One of `create` does for a crew that is kicked off in its loop.
        timeout: Seconds for one call.
        max_output: Characters of output that one call hands to the model.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    return SbxCodeTool(ModelTools(sandbox, timeout=timeout, max_output=max_output))


def make_command_tool(
    sandbox: SandboxSource, *, timeout: float = CALL_TIMEOUT, max_output: int = OUTPUT_LIMIT
) -> SbxCommandTool:
    """Return the tool ``run_command``; see `make_code_tool` for the arguments."""
    return SbxCommandTool(ModelTools(sandbox, timeout=timeout, max_output=max_output))
