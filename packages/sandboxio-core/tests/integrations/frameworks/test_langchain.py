"""LangChain and LangGraph with a scripted model: the tools are native, and loosen nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

pytest.importorskip(
    "langchain", reason="langchain is not installed: python3 tools/dev.py setup --frameworks"
)

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

import sandboxio
from sandboxio import NetworkPolicy
from sandboxio.integrations import langgraph
from sandboxio.integrations._model_tools import CALL_TIMEOUT
from sandboxio.integrations.langchain import make_code_tool, make_command_tool
from sandboxio.protocols import AsyncSandbox
from sandboxio_testing import FakeBackend

ASK: Any = {"messages": [{"role": "user", "content": "go"}]}


class ScriptedModel(GenericFakeChatModel):
    """Says what it is told to say, and takes tools as any chat model does."""

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        return self


def agent(tool: BaseTool, **arguments: str) -> Any:
    """An agent whose model calls the tool once, and then is done."""
    call = {"name": tool.name, "args": arguments, "id": "call-1"}
    script: list[AIMessage | str] = [AIMessage("", tool_calls=[call]), AIMessage("done")]
    return create_agent(ScriptedModel(messages=iter(script)), tools=[tool])


def answer(state: Any) -> str:
    """What the tool told the model."""
    (message,) = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    assert state["messages"][-1].content == "done"
    assert isinstance(message.content, str)
    return message.content


def test_tools_are_native_and_tell_the_model_what_they_take(fake: FakeBackend) -> None:
    code, command = make_code_tool(fake.sandbox), make_command_tool(fake.sandbox)
    assert isinstance(code, BaseTool)
    assert isinstance(command, BaseTool)
    assert (code.name, list(code.args)) == ("run_python", ["code"])
    assert (command.name, list(command.args)) == ("run_command", ["command"])
    assert "There is no network." in code.description
    assert langgraph.make_code_tool is make_code_tool


async def test_agent_runs_code_in_the_sandbox_of_its_caller(fake: FakeBackend) -> None:
    state = await agent(make_code_tool(fake.sandbox), code="print(6 * 7)").ainvoke(ASK)
    assert answer(state) == "42"
    assert fake.live_sandboxes == (fake.sandbox.id,)


def test_agent_without_an_event_loop_uses_a_sync_sandbox(fake: FakeBackend) -> None:
    state = agent(make_command_tool(fake.sync_sandbox), command="echo hello").invoke(ASK)
    assert answer(state) == "hello"
    assert fake.live_sandboxes == (fake.sandbox.id,)


async def test_agent_in_an_event_loop_uses_a_sync_sandbox_too(fake: FakeBackend) -> None:
    state = await agent(make_command_tool(fake.sync_sandbox), command="echo hello").ainvoke(ASK)
    assert answer(state) == "hello"


def test_a_sandbox_of_a_loop_is_refused_by_langchain_without_one(fake: FakeBackend) -> None:
    with pytest.raises(NotImplementedError, match="sync"):
        make_code_tool(fake.sandbox).invoke({"code": "print(1)"})


async def test_each_call_of_a_factory_has_its_own_sandbox(fake: FakeBackend) -> None:
    tool = make_command_tool(fake.create)
    assert await tool.ainvoke({"command": "touch a; ls"}) == "a"
    assert await tool.ainvoke({"command": "ls"}) == "[no output]"
    assert fake.live_sandboxes == ()


def test_a_factory_works_without_an_event_loop(fake: FakeBackend) -> None:
    assert make_command_tool(fake.create).invoke({"command": "echo hello"}) == "hello"
    assert fake.live_sandboxes == ()


@pytest.mark.parametrize(
    ("arguments", "code"), [("sleep 3600", "SBX_E1302"), ("nul \0", "SBX_E1000")]
)
async def test_an_error_of_the_sandbox_reaches_the_model_as_text(
    fake: FakeBackend, arguments: str, code: str
) -> None:
    state = await agent(make_command_tool(fake.sandbox), command=arguments).ainvoke(ASK)
    assert code in answer(state)
    assert "Fix:" in answer(state)


async def test_an_error_of_anybody_else_is_raised() -> None:
    async def make() -> AsyncSandbox:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await agent(make_code_tool(make), code="print(1)").ainvoke(ASK)


async def test_no_default_is_loosened(fake: FakeBackend) -> None:
    await make_code_tool(fake.create).ainvoke({"code": "print(1)"})
    await make_command_tool(fake.create).ainvoke({"command": "echo"})
    created, ran = fake.calls[0], fake.calls[1]
    assert created.network == NetworkPolicy()
    assert {call.timeout for call in fake.calls if call.op.startswith("run")} == {CALL_TIMEOUT}
    assert ran.op == "run_code"


async def test_code_reaches_nothing_of_the_host(escape: Any) -> None:
    tool = make_code_tool(partial(sandboxio.create, "local://", timeout=60))
    assert await tool.ainvoke({"code": escape.code}) == escape.contained


@pytest.mark.parametrize("make", [make_code_tool, make_command_tool])
def test_a_call_cannot_be_made_unbounded(fake: FakeBackend, make: Callable[..., BaseTool]) -> None:
    with pytest.raises(sandboxio.ConfigurationError):
        make(fake.sandbox, timeout=float("inf"))
