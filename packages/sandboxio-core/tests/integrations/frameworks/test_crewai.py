"""CrewAI with a scripted model: the tools are native, and loosen nothing.

It runs in an environment of its own: ``python3 tools/dev.py crewai``.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

pytest.importorskip(
    "crewai",
    reason="crewai is not installed, it has an environment of its own: tools/dev.py crewai",
)

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import BaseTool

import sandboxio
from sandboxio import NetworkPolicy
from sandboxio.integrations._model_tools import CALL_TIMEOUT
from sandboxio.integrations.crewai import make_code_tool, make_command_tool
from sandboxio.protocols import AsyncSandbox
from sandboxio_testing import FakeBackend


class Script(BaseLLM):
    """A model that calls a tool, as often as it is told to, and remembers what it was told."""

    calls: list[str]
    told: list[str]

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        self.told = [
            message["content"].partition("\nObservation: ")[2]
            for message in messages
            if message["role"] == "assistant"
        ]
        if self.calls:
            return self.calls.pop(0)
        return "Thought: I now know the final answer\nFinal Answer: done"

    def supports_function_calling(self) -> bool:
        return False


def told_all(tool: BaseTool, *calls: dict[str, str]) -> list[str]:
    """What a tool tells a crew's model that makes these calls, one after the other."""
    actions = [
        f"Thought: I use it\nAction: {tool.name}\nAction Input: {json.dumps(arguments)}"
        for arguments in calls
    ]
    script = Script(model="script", calls=actions, told=[])
    agent = Agent(role="a", goal="b", backstory="c", llm=script, tools=[tool], verbose=False)
    task = Task(description="go", expected_output="an answer", agent=agent)
    result = Crew(agents=[agent], tasks=[task], verbose=False).kickoff()
    assert result.raw == "done"
    assert len(script.told) == len(calls)
    return script.told


def told(tool: BaseTool, **arguments: str) -> list[str]:
    """What a tool tells a crew's model that calls it once."""
    return told_all(tool, arguments)


def test_tools_are_native_and_tell_the_model_what_they_take(fake: FakeBackend) -> None:
    code, command = make_code_tool(fake.sync_sandbox), make_command_tool(fake.sync_sandbox)
    assert isinstance(code, BaseTool)
    assert isinstance(command, BaseTool)
    assert list(code.args_schema.model_fields) == ["code"]
    assert list(command.args_schema.model_fields) == ["command"]
    assert "There is no network." in code.description


def test_agent_uses_the_sandbox_of_its_caller(fake: FakeBackend) -> None:
    assert told(make_code_tool(fake.sync_sandbox), code="print(6 * 7)") == ["42"]
    assert told(make_command_tool(fake.sync_sandbox), command="echo hello") == ["hello"]
    assert fake.live_sandboxes == (fake.sync_sandbox.id,)


def test_no_answer_comes_from_a_cache(fake: FakeBackend) -> None:
    again = {"command": "ls"}
    answers = told_all(make_command_tool(fake.sync_sandbox), again, {"command": "touch a"}, again)
    # After some turns CrewAI repeats below an answer which tools there are.
    assert [answer.splitlines()[0] for answer in answers] == ["[no output]", "[no output]", "a"]


async def test_a_loop_uses_its_own_sandbox(fake: FakeBackend) -> None:
    assert await make_command_tool(fake.sandbox).arun(command="echo hello") == "hello"


def test_each_call_of_a_factory_has_its_own_sandbox(fake: FakeBackend) -> None:
    tool = make_command_tool(fake.create)
    assert told(tool, command="touch a; ls") == ["a"]
    assert told(tool, command="ls") == ["[no output]"]
    assert fake.live_sandboxes == ()


@pytest.mark.parametrize(
    ("command", "code"), [("sleep 3600", "SBX_E1302"), ("nul \0", "SBX_E1000")]
)
def test_an_error_of_the_sandbox_reaches_the_model_as_text(
    fake: FakeBackend, command: str, code: str
) -> None:
    (answer,) = told(make_command_tool(fake.sync_sandbox), command=command)
    assert code in answer
    assert "Fix:" in answer


def test_an_error_of_anybody_else_is_raised_to_crewai() -> None:
    async def make() -> AsyncSandbox:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make_code_tool(make).run(code="print(1)")


def test_no_default_is_loosened(fake: FakeBackend) -> None:
    told(make_code_tool(fake.create), code="print(1)")
    told(make_command_tool(fake.create), command="echo")
    created = [call.network for call in fake.calls if call.op == "create"]
    assert created == [NetworkPolicy(), NetworkPolicy()]
    assert [call.timeout for call in fake.calls if call.op.startswith("run")] == [CALL_TIMEOUT] * 2
    with pytest.raises(sandboxio.ConfigurationError):
        make_code_tool(fake.sync_sandbox, timeout=float("inf"))


def test_code_reaches_nothing_of_the_host(escape: Any) -> None:
    tool = make_code_tool(partial(sandboxio.create, "local://", timeout=60))
    assert told(tool, code=escape.code) == [escape.contained]
