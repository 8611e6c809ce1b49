"""A LangGraph agent that runs a model's code in a sandbox.

The model here is a script, so that this runs without a key and without a network. Put a chat model of
yours in its place: ``init_chat_model("...")``.
"""

from __future__ import annotations

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

import sandboxio
from sandboxio.integrations.langgraph import make_code_tool, make_command_tool


class ScriptedModel(GenericFakeChatModel):
    """Says what it is told to say, and takes tools as any chat model does."""

    def bind_tools(self, tools: Any, *, tool_choice: str | None = None, **kwargs: Any) -> Any:
        return self


def call(tool: str, **arguments: str) -> AIMessage:
    """What a model says to call a tool."""
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"call {tool}"}])


async def main() -> None:
    script = [
        call("run_command", command="printf '3\\n1\\n2\\n' > numbers.txt"),
        call("run_python", code="print(sorted(map(int, open('numbers.txt'))))"),
        AIMessage("They are sorted."),
    ]
    async with await sandboxio.create("local://", timeout=120) as sandbox:
        # Both work in the same sandbox, so what one writes the other reads.
        tools = [make_code_tool(sandbox), make_command_tool(sandbox)]
        agent = create_agent(ScriptedModel(messages=iter(script)), tools=tools)
        state = await agent.ainvoke({"messages": [{"role": "user", "content": "Sort 3, 1, 2."}]})
    for message in state["messages"]:
        message.pretty_print()
    assert state["messages"][-2].content == "[1, 2, 3]"


if __name__ == "__main__":
    asyncio.run(main())
