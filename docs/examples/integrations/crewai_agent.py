"""A CrewAI agent that runs a model's code in a sandbox.

The model here is a script, so that this runs without a key and without a network. Put an ``LLM`` of
yours in its place. CrewAI is installed by itself: ``uv pip install "sandboxio[local]" "crewai>=1.15,<2"``.
"""

from __future__ import annotations

from typing import Any

from crewai import Agent, BaseLLM, Crew, Task

import sandboxio
from sandboxio.integrations.crewai import make_code_tool


class ScriptedModel(BaseLLM):
    """Asks for a calculation, and answers with what came back."""

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        said = messages[-2]["content"] if messages[-2]["role"] == "assistant" else ""
        if "Observation:" in said:
            return f"Thought: I now know the final answer\nFinal Answer: {said.rpartition(': ')[2]}"
        return 'Thought: I compute it\nAction: run_python\nAction Input: {"code": "print(2**100)"}'

    def supports_function_calling(self) -> bool:
        return False


def main() -> None:
    with sandboxio.create_sync("local://", timeout=120) as sandbox:
        analyst = Agent(
            role="analyst",
            goal="Answer with numbers that a program computed.",
            backstory="You never compute in your head.",
            llm=ScriptedModel(model="script"),
            tools=[make_code_tool(sandbox)],
        )
        task = Task(description="What is 2**100?", expected_output="A number.", agent=analyst)
        answer = Crew(agents=[analyst], tasks=[task]).kickoff().raw
        print(answer)
        assert answer == str(2**100)


if __name__ == "__main__":
    main()
