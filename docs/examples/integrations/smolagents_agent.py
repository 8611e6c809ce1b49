"""A smolagents agent that runs a model's code in a sandbox.

The model here is a script, so that this runs without a key and without a network. Put a model of
yours in its place.
"""

from __future__ import annotations

from typing import Any

from smolagents import ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)

import sandboxio
from sandboxio.integrations.smolagents import make_code_tool


class ScriptedModel(Model):
    """Asks for a calculation, and then says that it is done."""

    def __init__(self) -> None:
        super().__init__(model_id="script")
        self.calls: list[tuple[str, dict[str, Any]]] = [
            ("run_python", {"code": "print(2**100)"}),
            ("final_answer", {"answer": "It was computed in the sandbox."}),
        ]

    def generate(self, messages: list[ChatMessage], *args: Any, **kwargs: Any) -> ChatMessage:
        name, arguments = self.calls.pop(0)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=name, type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content=None, tool_calls=[call])


def main() -> None:
    with sandboxio.create_sync("local://", timeout=120) as sandbox:
        agent = ToolCallingAgent(tools=[make_code_tool(sandbox)], model=ScriptedModel())
        print(agent.run("What is 2**100?"))
    observed = [getattr(step, "observations", None) for step in agent.memory.steps]
    assert str(2**100) in observed


if __name__ == "__main__":
    main()
