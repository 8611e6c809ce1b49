"""smolagents: tools that run a model's code in a sandbox.

::

    from smolagents import ToolCallingAgent
    from sandboxio.integrations.smolagents import make_code_tool

    with sandboxio.create_sync("local://") as sandbox:
        agent = ToolCallingAgent(tools=[make_code_tool(sandbox)], model=model)
        agent.run("What is 2**100?")

Use it with a ``ToolCallingAgent``. A ``CodeAgent`` runs what its model writes in an executor of its
own, by default in your process: no tool changes that.
"""

# smolagents ships annotations, though not for all, and no `py.typed`.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

from ..errors import ConfigurationError
from ._model_text import missing
from ._model_tools import CALL_TIMEOUT, OUTPUT_LIMIT, ModelTools, SandboxSource

try:
    from smolagents import Tool
except ImportError as error:
    raise missing("smolagents", "smolagents", error) from error

__all__ = ["SbxCodeTool", "SbxCommandTool", "make_code_tool", "make_command_tool"]


class SbxCodeTool(Tool):
    """The tool ``run_python``; see `make_code_tool`."""

    name = "run_python"
    output_type = "string"

    def __init__(self, tools: ModelTools) -> None:
        self._tools = _blocking(tools)
        self.description = tools.about_python
        self.inputs = {"code": {"type": "string", "description": "Python 3 source code."}}
        super().__init__()

    def forward(self, code: str) -> str:
        """Run source text and return the text for the model."""
        return self._tools.run_python_sync(code)


class SbxCommandTool(Tool):
    """The tool ``run_command``; see `make_command_tool`."""

    name = "run_command"
    output_type = "string"

    def __init__(self, tools: ModelTools) -> None:
        self._tools = _blocking(tools)
        self.description = tools.about_command
        self.inputs = {"command": {"type": "string", "description": "A shell command."}}
        super().__init__()

    def forward(self, command: str) -> str:
        """Run a shell command and return the text for the model."""
        return self._tools.run_command_sync(command)


def _blocking(tools: ModelTools) -> ModelTools:
    if tools.can_block:
        return tools
    raise ConfigurationError(
        "smolagents calls tools without an event loop, which a sandbox of create() needs.",
        hint="Pass a sandbox of create_sync(), or a function that creates one.",
    )


def make_code_tool(
    sandbox: SandboxSource, *, timeout: float = CALL_TIMEOUT, max_output: int = OUTPUT_LIMIT
) -> SbxCodeTool:
    """Return the tool ``run_python``.

    Args:
        sandbox: A sandbox of `create_sync`, which the tool never closes, or a function that makes a
            new one for each call.
        timeout: Seconds for one call.
        max_output: Characters of output that one call hands to the model.

    Raises:
        ConfigurationError: An argument is wrong, or the sandbox lives in an event loop.
    """
    return SbxCodeTool(ModelTools(sandbox, timeout=timeout, max_output=max_output))


def make_command_tool(
    sandbox: SandboxSource, *, timeout: float = CALL_TIMEOUT, max_output: int = OUTPUT_LIMIT
) -> SbxCommandTool:
    """Return the tool ``run_command``; see `make_code_tool` for the arguments."""
    return SbxCommandTool(ModelTools(sandbox, timeout=timeout, max_output=max_output))
