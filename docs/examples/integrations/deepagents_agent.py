"""A deep agent whose files and shell are those of a sandbox.

The model here is a script, so that this runs without a key and without a network. Put a chat model of
yours in its place.
"""

from __future__ import annotations

from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

import sandboxio
from sandboxio.integrations.deepagents import SbxBackend


class ScriptedModel(GenericFakeChatModel):
    """Says what it is told to say, and takes tools as any chat model does."""

    def bind_tools(self, tools: Any, *, tool_choice: str | None = None, **kwargs: Any) -> Any:
        return self


def call(tool: str, **arguments: str) -> AIMessage:
    """What a model says to call a tool."""
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"call {tool}"}])


def main() -> None:
    script = [
        call("write_file", file_path="/work/hello.py", content="print('hello from the sandbox')"),
        call("execute", command="python3 hello.py"),
        AIMessage("It works."),
    ]
    with sandboxio.create_sync("local://", timeout=600) as sandbox:
        model = ScriptedModel(messages=iter(script))
        agent = create_deep_agent(model=model, backend=SbxBackend(sandbox))
        state = agent.invoke({"messages": [{"role": "user", "content": "Write a program."}]})
        # The agent's files are there until the block ends.
        print(sandbox.files.read("hello.py").decode())
    ran = str(state["messages"][-2].content)
    print(ran)
    assert ran.startswith("hello from the sandbox")


if __name__ == "__main__":
    main()
