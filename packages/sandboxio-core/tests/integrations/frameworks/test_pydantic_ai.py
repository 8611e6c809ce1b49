"""Pydantic AI with a scripted model: the tools are native, and loosen nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

pytest.importorskip(
    "pydantic_ai", reason="pydantic-ai is not installed: python3 tools/dev.py setup --frameworks"
)

from pydantic_ai import Agent, FunctionToolset, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import sandboxio
from sandboxio import NetworkPolicy
from sandboxio.integrations._model_tools import CALL_TIMEOUT
from sandboxio.integrations.pydantic_ai import (
    make_code_tool,
    make_command_tool,
    make_toolset,
    sandbox_tool,
)
from sandboxio.protocols import AsyncSandbox
from sandboxio_testing import FakeBackend


class Script:
    """A model that calls a tool once, then is done, and remembers what it was offered."""

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        self.call = ToolCallPart(tool, arguments)
        self.offered: dict[str, str | None] = {}
        self.answer = ""

    def model(self) -> FunctionModel:
        return FunctionModel(self._respond)

    async def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.offered = {tool.name: tool.description for tool in info.function_tools}
        for part in messages[-1].parts:
            if isinstance(part, ToolReturnPart):
                self.answer = str(part.content)
                return ModelResponse([TextPart("done")])
        return ModelResponse([self.call])


async def told(toolset: FunctionToolset[object], tool: str, **arguments: Any) -> str:
    """What a tool tells an agent's model that calls it."""
    script = Script(tool, arguments)
    result = await Agent(script.model(), toolsets=[toolset]).run("go")
    assert result.output == "done"
    return script.answer


async def test_tools_are_native_and_tell_the_model_what_they_do(fake: FakeBackend) -> None:
    code, command = make_code_tool(fake.sandbox), make_command_tool(fake.sandbox)
    assert isinstance(code, Tool)
    assert isinstance(command, Tool)
    assert sandbox_tool is make_code_tool
    script = Script("run_python", {"code": "print(6 * 7)"})
    await Agent(script.model(), tools=[code, command]).run("go")
    assert script.answer == "42"
    assert script.offered == {"run_python": code.description, "run_command": command.description}
    assert "There is no network." in (code.description or "")


async def test_agent_uses_the_sandbox_of_its_caller(fake: FakeBackend) -> None:
    for sandbox in (fake.sandbox, fake.sync_sandbox):
        toolset = make_toolset(sandbox)
        assert await told(toolset, "run_command", command="echo hello") == "hello"
        assert await told(toolset, "run_python", code="print('hi')") == "hi"
    assert fake.live_sandboxes == (fake.sandbox.id,)


async def test_each_call_of_a_factory_has_its_own_sandbox(fake: FakeBackend) -> None:
    toolset = make_toolset(fake.create)
    assert await told(toolset, "run_command", command="touch a; ls") == "a"
    assert await told(toolset, "run_command", command="ls") == "[no output]"
    assert fake.live_sandboxes == ()


@pytest.mark.parametrize(
    ("command", "code"), [("sleep 3600", "SBX_E1302"), ("nul \0", "SBX_E1000")]
)
async def test_an_error_of_the_sandbox_reaches_the_model_as_text(
    fake: FakeBackend, command: str, code: str
) -> None:
    answer = await told(make_toolset(fake.sandbox), "run_command", command=command)
    assert code in answer
    assert "Fix:" in answer


async def test_an_error_of_anybody_else_is_raised() -> None:
    async def make() -> AsyncSandbox:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await told(make_toolset(make), "run_python", code="print(1)")


async def test_no_default_is_loosened(fake: FakeBackend) -> None:
    toolset = make_toolset(fake.create)
    await told(toolset, "run_python", code="print(1)")
    await told(toolset, "run_command", command="echo")
    created = [call.network for call in fake.calls if call.op == "create"]
    assert created == [NetworkPolicy(), NetworkPolicy()]
    assert [call.timeout for call in fake.calls if call.op.startswith("run")] == [CALL_TIMEOUT] * 2
    with pytest.raises(sandboxio.ConfigurationError):
        make_toolset(fake.sandbox, timeout=float("inf"))


async def test_code_reaches_nothing_of_the_host(escape: Any) -> None:
    toolset = make_toolset(partial(sandboxio.create, "local://", timeout=60))
    assert await told(toolset, "run_python", code=escape.code) == escape.contained
