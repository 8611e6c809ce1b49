"""OpenAI Agents SDK: tools that run a model's code in a sandbox, and our backends as its sandboxes.

::

    from agents import Agent, Runner
    from sandboxio.integrations.openai_agents import make_code_tool

    async with await sandboxio.create("local://") as sandbox:
        agent = Agent(name="coder", tools=[make_code_tool(sandbox)])
        await Runner.run(agent, "What is 2**100?")

The other way round, a `SandboxAgent` works in any of our backends::

    client = SbxSandboxClient(partial(sandboxio.create, "docker://", timeout=3600))
    config = RunConfig(sandbox=SandboxRunConfig(client=client))
    await Runner.run(SandboxAgent(name="coder"), "Write and test a sort.", run_config=config)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ._model_text import missing
from ._model_tools import CALL_TIMEOUT, OUTPUT_LIMIT, ModelTools, SandboxSource

try:
    from agents import FunctionTool, ModelBehaviorError, RunContextWrapper, function_tool
except ImportError as error:
    raise missing("openai-agents", "openai-agents", error) from error

from ._openai.client import SbxSandboxClient
from ._openai.state import SbxSandboxClientOptions

__all__ = ["SbxSandboxClient", "SbxSandboxClientOptions", "make_code_tool", "make_command_tool"]


def make_code_tool(
    sandbox: SandboxSource, *, timeout: float = CALL_TIMEOUT, max_output: int = OUTPUT_LIMIT
) -> FunctionTool:
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
    return _tool("run_python", tools.about_python, tools.run_python)


def make_command_tool(
    sandbox: SandboxSource, *, timeout: float = CALL_TIMEOUT, max_output: int = OUTPUT_LIMIT
) -> FunctionTool:
    """Return the tool ``run_command``; see `make_code_tool` for the arguments."""
    tools = ModelTools(sandbox, timeout=timeout, max_output=max_output)
    return _tool("run_command", tools.about_command, tools.run_command)


def _tool(name: str, about: str, call: Callable[[str], Awaitable[str]]) -> FunctionTool:
    return function_tool(
        call,
        name_override=name,
        description_override=about,
        use_docstring_info=False,
        failure_error_function=_malformed,
    )


def _malformed(context: RunContextWrapper[object], error: Exception) -> str:
    """Tell the model of arguments that are none; every other error is raised, bugs included."""
    if isinstance(error, ModelBehaviorError):
        return f"Nothing was run, the arguments are malformed: {error}"
    raise error
