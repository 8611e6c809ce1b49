"""smolagents with a scripted model: the tools are native, and loosen nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

pytest.importorskip(
    "smolagents", reason="smolagents is not installed: python3 tools/dev.py setup --frameworks"
)

from smolagents import Tool, ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)

import sandboxio
from sandboxio import NetworkPolicy
from sandboxio.integrations._model_tools import CALL_TIMEOUT
from sandboxio.integrations.smolagents import make_code_tool, make_command_tool
from sandboxio.protocols import AsyncSandbox
from sandboxio_testing import FakeBackend


class Script(Model):
    """A model that calls a tool once, and then gives its answer."""

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        super().__init__(model_id="script")
        self.calls = [(tool, arguments), ("final_answer", {"answer": "done"})]
        self.offered: dict[str, str] = {}

    def generate(self, messages: list[ChatMessage], *args: Any, **kwargs: Any) -> ChatMessage:
        self.offered = {tool.name: tool.description for tool in kwargs["tools_to_call_from"]}
        name, arguments = self.calls.pop(0)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=f"call-{name}", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content=None, tool_calls=[call])


def told(tool: Tool, **arguments: str) -> str:
    """What a tool tells an agent's model that calls it."""
    script = Script(tool.name, arguments)
    agent = ToolCallingAgent(tools=[tool], model=script, verbosity_level=0)
    assert agent.run("go") == "done"
    assert script.offered[tool.name] == tool.description
    observations = [getattr(step, "observations", None) for step in agent.memory.steps]
    return next(text for text in observations if text is not None)


def test_tools_are_native_and_tell_the_model_what_they_take(fake: FakeBackend) -> None:
    code, command = make_code_tool(fake.sync_sandbox), make_command_tool(fake.sync_sandbox)
    assert isinstance(code, Tool)
    assert isinstance(command, Tool)
    assert (code.name, list(code.inputs)) == ("run_python", ["code"])
    assert (command.name, list(command.inputs)) == ("run_command", ["command"])
    assert "There is no network." in code.description


def test_agent_uses_the_sandbox_of_its_caller(fake: FakeBackend) -> None:
    assert told(make_code_tool(fake.sync_sandbox), code="print(6 * 7)") == "42"
    assert told(make_command_tool(fake.sync_sandbox), command="echo hello") == "hello"
    assert fake.live_sandboxes == (fake.sync_sandbox.id,)


def test_each_call_of_a_factory_has_its_own_sandbox(fake: FakeBackend) -> None:
    tool = make_command_tool(fake.create)
    assert told(tool, command="touch a; ls") == "a"
    assert told(tool, command="ls") == "[no output]"
    assert fake.live_sandboxes == ()


def test_a_sandbox_of_a_loop_is_refused(fake: FakeBackend) -> None:
    for make in (make_code_tool, make_command_tool):
        with pytest.raises(sandboxio.ConfigurationError, match="event loop"):
            make(fake.sandbox)


@pytest.mark.parametrize(
    ("command", "code"), [("sleep 3600", "SBX_E1302"), ("nul \0", "SBX_E1000")]
)
def test_an_error_of_the_sandbox_reaches_the_model_as_text(
    fake: FakeBackend, command: str, code: str
) -> None:
    answer = told(make_command_tool(fake.sync_sandbox), command=command)
    assert code in answer
    assert "Fix:" in answer


def test_an_error_of_anybody_else_is_raised_to_smolagents() -> None:
    async def make() -> AsyncSandbox:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make_code_tool(make)(code="print(1)")


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
    assert told(tool, code=escape.code) == escape.contained
