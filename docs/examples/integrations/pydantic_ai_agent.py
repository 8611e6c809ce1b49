"""A Pydantic AI agent that runs a model's code in a sandbox.

The model here is a function, so that this runs without a key and without a network. Put the name of
a model of yours in its place: ``Agent("...", toolsets=[...])``.
"""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import sandboxio
from sandboxio.integrations.pydantic_ai import make_toolset


async def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask for a calculation, and answer with what came back."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(f"It is {last.content}.")])
    return ModelResponse([ToolCallPart("run_python", {"code": "print(2**100)"})])


async def main() -> None:
    async with await sandboxio.create("local://", timeout=120) as sandbox:
        agent = Agent(FunctionModel(scripted), toolsets=[make_toolset(sandbox)])
        result = await agent.run("What is 2**100?")
        print(result.output)
        assert result.output == f"It is {2**100}."


if __name__ == "__main__":
    asyncio.run(main())
