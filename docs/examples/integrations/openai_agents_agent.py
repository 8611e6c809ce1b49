"""The OpenAI Agents SDK both ways: a tool that runs code in a sandbox, and an agent that lives in one.

The model here is a script, so that this runs without a key and without a network. Leave it out, and
the SDK asks OpenAI.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

import sandboxio
from sandboxio.integrations.openai_agents import SbxSandboxClient, make_code_tool


class ScriptedModel(Model):
    """Calls one tool, and answers with what came back."""

    def __init__(self, tool: str, **arguments: str) -> None:
        self.call = ResponseFunctionToolCall(
            name=tool, arguments=json.dumps(arguments), call_id="call", type="function_call"
        )

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        said = kwargs["input"] if "input" in kwargs else args[1]
        results = [item["output"] for item in said if item.get("type") == "function_call_output"]
        if not results:
            return ModelResponse(output=[self.call], usage=Usage(), response_id=None)
        text = ResponseOutputText(text=str(results[-1]), type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id="answer", role="assistant", status="completed", type="message", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


# Traces would go to OpenAI.
OFFLINE = RunConfig(tracing_disabled=True)


async def tool_in_a_sandbox() -> None:
    async with await sandboxio.create("local://", timeout=120) as sandbox:
        model = ScriptedModel("run_python", code="print(2**100)")
        agent = Agent(name="coder", model=model, tools=[make_code_tool(sandbox)])
        result = await Runner.run(agent, "What is 2**100?", run_config=OFFLINE)
    print(result.final_output)
    assert result.final_output == str(2**100)


async def agent_in_a_sandbox() -> None:
    # Every run gets a sandbox of its own, which ends with it.
    client = SbxSandboxClient(partial(sandboxio.create, "local://", timeout=600))
    agent = SandboxAgent(
        name="coder",
        model=ScriptedModel("exec_command", cmd="python3 hello.py"),
        default_manifest=Manifest(
            entries={"hello.py": File(content=b"print('hello from the sandbox')")}
        ),
    )
    config = RunConfig(sandbox=SandboxRunConfig(client=client), tracing_disabled=True)
    result = await Runner.run(agent, "Run hello.py.", run_config=config)
    print(result.final_output)
    assert "hello from the sandbox" in result.final_output


async def main() -> None:
    await tool_in_a_sandbox()
    await agent_in_a_sandbox()


if __name__ == "__main__":
    asyncio.run(main())
