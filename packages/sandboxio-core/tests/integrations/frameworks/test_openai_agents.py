"""OpenAI Agents SDK with a scripted model: its tools in our sandboxes, its agents in our backends."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "agents", reason="openai-agents is not installed: python3 tools/dev.py setup --frameworks"
)

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    Usage,
    UserError,
    set_tracing_disabled,
)
from agents.sandbox import (
    ExecTimeoutError,
    LocalSnapshotSpec,
    Manifest,
    SandboxAgent,
    SandboxPathGrant,
    SandboxRunConfig,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.entries import File
from agents.sandbox.errors import ExecNonZeroError, InvalidManifestPathError
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

import dockerd
import sandboxio
from sandboxio import NetworkPolicy
from sandboxio.integrations._model_tools import CALL_TIMEOUT
from sandboxio.integrations.openai_agents import (
    SbxSandboxClient,
    SbxSandboxClientOptions,
    make_code_tool,
    make_command_tool,
)
from sandboxio.protocols import AsyncSandbox
from sandboxio_testing import FakeBackend

set_tracing_disabled(True)

LIFETIME = 600.0


class Script(Model):
    """A model that makes calls, one after the other, and remembers what it was told."""

    def __init__(self, *calls: tuple[str, dict[str, Any] | str]) -> None:
        self.calls = list(calls)
        self.offered: dict[str, str] = {}
        self.told: list[str] = []

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        said = kwargs["input"] if "input" in kwargs else args[1]
        tools = kwargs["tools"] if "tools" in kwargs else args[3]
        self.offered = {
            tool.name: tool.description for tool in tools if isinstance(tool, FunctionTool)
        }
        self.told = [
            str(item["output"])
            for item in said
            if isinstance(item, dict) and item.get("type") == "function_call_output"
        ]
        if not self.calls:
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            message = ResponseOutputMessage(
                id="m", role="assistant", status="completed", type="message", content=[text]
            )
            return ModelResponse(output=[message], usage=Usage(), response_id=None)
        name, arguments = self.calls.pop(0)
        call = ResponseFunctionToolCall(
            name=name,
            arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
            call_id=f"call-{len(self.calls)}",
            type="function_call",
        )
        return ModelResponse(output=[call], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def told(tool: FunctionTool, arguments: dict[str, Any] | str) -> str:
    """What a tool tells an agent's model that calls it."""
    script = Script((tool.name, arguments))
    result = await Runner.run(Agent(name="a", model=script, tools=[tool]), "go")
    assert result.final_output == "done"
    assert script.offered == {tool.name: tool.description}
    (answer,) = script.told
    return answer


# --- tools of the SDK in our sandboxes


def test_tools_are_native_and_tell_the_model_what_they_take(fake: FakeBackend) -> None:
    code, command = make_code_tool(fake.sandbox), make_command_tool(fake.sandbox)
    assert isinstance(code, FunctionTool)
    assert list(code.params_json_schema["properties"]) == ["code"]
    assert list(command.params_json_schema["properties"]) == ["command"]
    assert "There is no network." in code.description


async def test_agent_uses_the_sandbox_of_its_caller(fake: FakeBackend) -> None:
    for sandbox in (fake.sandbox, fake.sync_sandbox):
        assert await told(make_code_tool(sandbox), {"code": "print(6 * 7)"}) == "42"
        assert await told(make_command_tool(sandbox), {"command": "echo hello"}) == "hello"
    assert fake.live_sandboxes == (fake.sandbox.id,)


async def test_each_call_of_a_factory_has_its_own_sandbox(fake: FakeBackend) -> None:
    tool = make_command_tool(fake.create)
    assert await told(tool, {"command": "touch a; ls"}) == "a"
    assert await told(tool, {"command": "ls"}) == "[no output]"
    assert fake.live_sandboxes == ()


@pytest.mark.parametrize(
    ("command", "code"), [("sleep 3600", "SBX_E1302"), ("nul \0", "SBX_E1000")]
)
async def test_an_error_of_the_sandbox_reaches_the_model_as_text(
    fake: FakeBackend, command: str, code: str
) -> None:
    answer = await told(make_command_tool(fake.sandbox), {"command": command})
    assert code in answer
    assert "Fix:" in answer


@pytest.mark.parametrize("arguments", ["no JSON", "{}", '{"code": 7}'])
async def test_malformed_arguments_reach_the_model_as_text(
    fake: FakeBackend, arguments: str
) -> None:
    assert "Nothing was run" in await told(make_code_tool(fake.sandbox), arguments)
    assert [call.op for call in fake.calls] == ["create"]


async def test_an_error_of_anybody_else_is_raised() -> None:
    async def make() -> AsyncSandbox:
        raise ZeroDivisionError

    with pytest.raises(UserError) as raised:
        await told(make_code_tool(make), {"code": "print(1)"})
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


async def test_no_default_is_loosened(fake: FakeBackend) -> None:
    await told(make_code_tool(fake.create), {"code": "print(1)"})
    await told(make_command_tool(fake.create), {"command": "echo"})
    created = [call.network for call in fake.calls if call.op == "create"]
    assert created == [NetworkPolicy(), NetworkPolicy()]
    assert [call.timeout for call in fake.calls if call.op.startswith("run")] == [CALL_TIMEOUT] * 2
    with pytest.raises(sandboxio.ConfigurationError):
        make_code_tool(fake.sandbox, timeout=float("inf"))


async def test_code_reaches_nothing_of_the_host(escape: Any) -> None:
    tool = make_code_tool(partial(sandboxio.create, "local://", timeout=60))
    assert await told(tool, {"code": escape.code}) == escape.contained


# --- agents of the SDK in our backends

BACKENDS = [
    "local://",
    pytest.param(f"docker://{dockerd.PYTHON_IMAGE}", marks=pytest.mark.docker, id="docker"),
]
each_backend = pytest.mark.parametrize("target", BACKENDS)


def client_of(target: str, **options: Any) -> tuple[SbxSandboxClient, list[AsyncSandbox]]:
    """A client, and the list of all sandboxes that it will have made."""
    made: list[AsyncSandbox] = []

    async def create() -> AsyncSandbox:
        made.append(await sandboxio.create(target, timeout=LIFETIME))
        return made[-1]

    return SbxSandboxClient(create, **options), made


async def all_ended(made: list[AsyncSandbox]) -> bool:
    """Whether none of these sandboxes runs any more."""
    for sandbox in made:
        with pytest.raises(sandboxio.SandboxGone):
            await sandbox.run(["true"])
    return bool(made)


@each_backend
async def test_agent_works_in_a_sandbox_of_ours(target: str) -> None:
    client, made = client_of(target)
    script = Script(
        ("exec_command", {"cmd": "python3 a.py > out.txt; cat out.txt; id -un >&2"}),
        ("exec_command", {"cmd": "exit 3"}),
    )
    agent = SandboxAgent(
        name="a",
        model=script,
        default_manifest=Manifest(entries={"a.py": File(content=b"print(6 * 7)")}),
    )
    config = RunConfig(sandbox=SandboxRunConfig(client=client), tracing_disabled=True)
    result = await Runner.run(agent, "go", run_config=config)
    assert result.final_output == "done"
    assert "exec_command" in script.offered
    assert "42" in script.told[0]
    assert "3" in script.told[1]
    assert await all_ended(made)


@each_backend
async def test_session_has_files_commands_and_an_end(target: str) -> None:
    client, made = client_of(target)
    session = await client.create(manifest=Manifest(), options=SbxSandboxClientOptions())
    async with session:
        assert await session.running()
        await session.write(Path("folder/a.bin"), io.BytesIO(b"\x00\xff"))
        assert (await session.read(Path("folder/a.bin"))).read() == b"\x00\xff"
        assert (await session.exec("ls folder")).stdout == b"a.bin\n"
        assert [entry.path.rsplit("/", 1)[-1] for entry in await session.ls("folder")] == ["a.bin"]
        with pytest.raises(WorkspaceReadNotFoundError):
            await session.read(Path("nothing"))
        done = await session.exec("echo no >&2; exit 3")
        assert (done.stderr, done.exit_code) == (b"no\n", 3)
        with pytest.raises(ExecTimeoutError):
            await session.exec("sleep 60", timeout=0.5)
    assert await all_ended(made)
    assert not await session.running()
    await client.delete(session)


@each_backend
async def test_session_resumes_with_the_files_of_its_snapshot(target: str, tmp_path: Path) -> None:
    client, made = client_of(target)
    spec = LocalSnapshotSpec(base_path=tmp_path)
    async with await client.create(snapshot=spec, manifest=Manifest(), options=None) as session:
        await session.exec("mkdir kept && echo of before > kept/a.txt")
        stored = client.serialize_session_state(session.state)
    state = client.deserialize_session_state(json.loads(json.dumps(stored)))
    async with await client.resume(state) as session:
        assert (await session.exec("cat kept/a.txt")).stdout == b"of before\n"
    assert len(made) == 2
    assert await all_ended(made)


async def test_files_outside_of_the_workspace_are_refused() -> None:
    client, _ = client_of("local://")
    async with await client.create(manifest=Manifest(), options=None) as session:
        await session.exec("ln -s /etc etc")
        for path in ("/etc/passwd", "../etc/passwd", "etc/passwd"):
            with pytest.raises(InvalidManifestPathError):
                await session.read(Path(path))


async def test_an_archive_that_reaches_out_is_refused(fake: FakeBackend) -> None:
    client, _ = client_of("local://")
    async with await client.create(manifest=Manifest(), options=None) as session:
        with pytest.raises(WorkspaceArchiveWriteError):
            await session.hydrate_workspace(io.BytesIO(b"no archive"))


async def test_a_dead_sandbox_is_a_failed_command_with_code_and_fix() -> None:
    client, made = client_of("local://")
    session = await client.create(manifest=Manifest(), options=None)
    async with session:
        await made[0].kill()
        done = await session.exec("true")
        assert done.exit_code == 125
        assert b"SBX_E1204" in done.stderr
        assert b"Fix:" in done.stderr
        with pytest.raises(ExecNonZeroError, match=r"SBX_E1204[\s\S]*Fix:"):
            await session.write(Path("a"), io.BytesIO(b"a"))
        assert not await session.running()


class Killer(Script):
    """A model whose sandbox dies before its second turn."""

    def __init__(self, made: list[AsyncSandbox], *calls: tuple[str, dict[str, Any] | str]) -> None:
        super().__init__(*calls)
        self.made = made

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        response = await super().get_response(*args, **kwargs)
        if len(self.told) == 1:
            await self.made[0].kill()
        return response


async def test_a_hit_limit_reaches_the_model_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBX_MAX_OUTPUT_MB", "1")
    client, made = client_of("local://")
    script = Script(("exec_command", {"cmd": "yes"}))
    config = RunConfig(sandbox=SandboxRunConfig(client=client), tracing_disabled=True)
    result = await Runner.run(SandboxAgent(name="a", model=script), "go", run_config=config)
    assert result.final_output == "done"
    assert "SBX_E1406" in script.told[0]
    assert "Fix:" in script.told[0]
    assert await all_ended(made)


async def test_a_run_does_not_go_on_in_an_empty_sandbox_when_its_own_died() -> None:
    client, made = client_of("local://")
    call = ("exec_command", {"cmd": "echo alive"})
    config = RunConfig(sandbox=SandboxRunConfig(client=client), tracing_disabled=True)
    agent = SandboxAgent(name="a", model=Killer(made, call, call))
    with pytest.raises(sandboxio.SandboxGone, match="SBX_E1204"):
        await Runner.run(agent, "go", run_config=config)
    assert len(made) == 1


async def test_a_path_of_the_host_is_refused_before_anything_is_made() -> None:
    client, made = client_of("local://")
    grants = (SandboxPathGrant(path="/data", host_path="/etc"),)
    with pytest.raises(sandboxio.ConfigurationError, match="host"):
        await client.create(manifest=Manifest(extra_path_grants=grants), options=None)
    assert made == []


async def test_every_command_of_a_session_is_bounded(fake: FakeBackend) -> None:
    with pytest.raises(sandboxio.ConfigurationError):
        SbxSandboxClient(fake.create, timeout=float("inf"))
    client = SbxSandboxClient(fake.create)
    session = await client.create(manifest=Manifest(), options=None)
    await session.exec("echo", shell=False)
    assert [call.timeout for call in fake.calls if call.op == "run"][-1] == CALL_TIMEOUT
    assert fake.calls[0].network == NetworkPolicy()
    await client.delete(session)
    assert fake.live_sandboxes == ()
