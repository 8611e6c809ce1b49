"""deepagents: its own standard tests of a sandbox, and an agent with a scripted model on ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip(
    "deepagents", reason="deepagents is not installed: python3 tools/dev.py setup --frameworks"
)
pytest.importorskip(
    "langchain_tests",
    reason="langchain-tests is not installed: python3 tools/dev.py setup --frameworks",
)

from deepagents import create_deep_agent
from deepagents.backends.protocol import SandboxBackendProtocol
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_tests.integration_tests import SandboxIntegrationTests

import dockerd
import sandboxio
from sandboxio.integrations._model_tools import CALL_TIMEOUT
from sandboxio.integrations.deepagents import SbxBackend
from sandboxio_testing import FakeBackend

LIFETIME = 600.0


# The fixtures of langchain-tests are methods with the scope of a class, which pytest means to end.
of_langchain = pytest.mark.filterwarnings(
    "ignore:Class-scoped fixtures:pytest.PytestRemovedIn10Warning"
)

# langchain-tests is a version behind: what these ask for, `BaseSandbox` of deepagents itself does
# not do any more. See https://github.com/langchain-ai/deepagents, `backends/protocol.py`.
glob_is_absolute = pytest.mark.xfail(
    strict=True,
    reason="deepagents 0.7.32: `BackendProtocol.glob` returns absolute paths, and no folders",
)
write_replaces = pytest.mark.xfail(
    strict=True, reason="deepagents 0.7.32: `BackendProtocol.write` replaces a file that exists"
)


class Standard(SandboxIntegrationTests):
    """What LangChain asks of a sandbox, on a backend of ours."""

    target: str

    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[SandboxBackendProtocol]:
        # The tests run `python`, which Debian calls python3.
        path = "/tmp/bin:/usr/local/bin:/usr/bin:/bin"
        with sandboxio.create_sync(self.target, timeout=LIFETIME, env={"PATH": path}) as made:
            made.run(
                "mkdir /tmp/bin && ln -s $(command -v python3) /tmp/bin/python"
            ).raise_for_status()
            yield SbxBackend(made)

    @glob_is_absolute
    def test_glob(self, sandbox_backend: Any, sandbox_test_root: str) -> None:
        super().test_glob(sandbox_backend, sandbox_test_root)

    @glob_is_absolute
    def test_glob_basic_pattern(self, sandbox_backend: Any, sandbox_test_root: str) -> None:
        super().test_glob_basic_pattern(sandbox_backend, sandbox_test_root)

    @glob_is_absolute
    def test_glob_with_directories(self, sandbox_backend: Any, sandbox_test_root: str) -> None:
        super().test_glob_with_directories(sandbox_backend, sandbox_test_root)

    @glob_is_absolute
    def test_glob_hidden_files_explicitly(
        self, sandbox_backend: Any, sandbox_test_root: str
    ) -> None:
        super().test_glob_hidden_files_explicitly(sandbox_backend, sandbox_test_root)

    @glob_is_absolute
    def test_glob_with_character_class(self, sandbox_backend: Any, sandbox_test_root: str) -> None:
        super().test_glob_with_character_class(sandbox_backend, sandbox_test_root)

    @glob_is_absolute
    def test_glob_with_question_mark(self, sandbox_backend: Any, sandbox_test_root: str) -> None:
        super().test_glob_with_question_mark(sandbox_backend, sandbox_test_root)

    @write_replaces
    def test_write_existing_file_fails(self, sandbox_backend: Any, sandbox_test_root: str) -> None:
        super().test_write_existing_file_fails(sandbox_backend, sandbox_test_root)


@of_langchain
class TestOnLocal(Standard):
    """On the local backend."""

    target = "local://"


@of_langchain
@pytest.mark.docker
class TestOnDocker(Standard):
    """On the Docker backend."""

    target = f"docker://{dockerd.PYTHON_IMAGE}"


# --- an agent of deepagents, with a scripted model


class ScriptedModel(GenericFakeChatModel):
    """Says what it is told to say, and takes tools as any chat model does."""

    def bind_tools(self, tools: Any, *, tool_choice: str | None = None, **kwargs: Any) -> Any:
        return self


def agent(backend: SbxBackend, *calls: tuple[str, dict[str, Any]]) -> Any:
    """An agent whose model makes these calls, one after the other, and then is done."""
    script: list[AIMessage | str] = [
        AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{number}"}])
        for number, (name, args) in enumerate(calls)
    ]
    model = ScriptedModel(messages=iter([*script, AIMessage("done")]))
    return create_deep_agent(model=model, backend=backend)


ASK: Any = {"messages": [{"role": "user", "content": "go"}]}


def answers(state: Any) -> list[str]:
    """What its tools told the model."""
    assert state["messages"][-1].content == "done"
    return [
        str(message.content) for message in state["messages"] if isinstance(message, ToolMessage)
    ]


WRITE_AND_RUN = (
    ("write_file", {"file_path": "/work/a.py", "content": "print(6 * 7)"}),
    ("execute", {"command": "python3 a.py"}),
    ("glob", {"pattern": "*.py", "path": "/work"}),
)


def check_written_and_ran(state: Any) -> None:
    wrote, ran, found = answers(state)
    assert "/work/a.py" in wrote
    assert ran.startswith("42\n")
    assert "exit code 0" in ran
    assert "a.py" in found


def test_agent_writes_and_runs_a_program() -> None:
    with sandboxio.create_sync("local://", timeout=LIFETIME) as sandbox:
        check_written_and_ran(agent(SbxBackend(sandbox), *WRITE_AND_RUN).invoke(ASK))
        assert sandbox.run(["cat", "a.py"]).stdout == "print(6 * 7)"


async def test_agent_in_an_event_loop_does_the_same() -> None:
    with sandboxio.create_sync("local://", timeout=LIFETIME) as sandbox:
        check_written_and_ran(await agent(SbxBackend(sandbox), *WRITE_AND_RUN).ainvoke(ASK))


@pytest.mark.parametrize(
    ("command", "code"), [("sleep 3600", "SBX_E1302"), ("nul \0", "SBX_E1000")]
)
def test_an_error_of_the_sandbox_reaches_the_model_as_text(
    fake: FakeBackend, command: str, code: str
) -> None:
    (told,) = answers(
        agent(SbxBackend(fake.sync_sandbox), ("execute", {"command": command})).invoke(ASK)
    )
    assert code in told
    assert "Fix:" in told


class Broken(sandboxio.Sandbox):
    """A sandbox with a bug of its own."""

    def run(self, *args: Any, **kwargs: Any) -> sandboxio.ExecResult:
        raise ZeroDivisionError


def test_an_error_of_anybody_else_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        SbxBackend(Broken.__new__(Broken)).execute("anything")


def test_files_of_a_dead_sandbox_are_errors_and_no_crash(fake: FakeBackend) -> None:
    backend = SbxBackend(fake.sync_sandbox)
    fake.sync_sandbox.kill()
    (up,) = backend.upload_files([("/work/a", b"a")])
    (down,) = backend.download_files(["/work/a"])
    assert "SBX_E1204" in (up.error or "")
    assert "SBX_E1204" in (down.error or "")


def test_every_command_is_bounded(fake: FakeBackend) -> None:
    backend = SbxBackend(fake.sync_sandbox)
    backend.execute("echo")
    backend.execute("echo", timeout=7)
    # What deepagents takes for "no timeout" is none of ours.
    assert "SBX_E1000" in backend.execute("echo", timeout=0).output
    assert [call.timeout for call in fake.calls if call.op == "run"] == [CALL_TIMEOUT, 7]
    with pytest.raises(sandboxio.ConfigurationError):
        SbxBackend(fake.sync_sandbox, timeout=0)


def test_a_sandbox_of_a_loop_is_refused(fake: FakeBackend) -> None:
    sandbox: Any = fake.sandbox
    with pytest.raises(sandboxio.ConfigurationError, match="threads"):
        SbxBackend(sandbox)


def test_the_sandbox_of_the_caller_is_not_closed(fake: FakeBackend) -> None:
    backend = SbxBackend(fake.sync_sandbox)
    agent(backend, ("execute", {"command": "echo hi"})).invoke(ASK)
    assert fake.live_sandboxes == (fake.sync_sandbox.id,) == (backend.id,)


def test_code_reaches_nothing_of_the_host(escape: Any) -> None:
    with sandboxio.create_sync("local://", timeout=LIFETIME) as sandbox:
        backend = SbxBackend(sandbox)
        backend.upload_files([("/work/escape.py", escape.code.encode())])
        assert backend.execute("python3 escape.py").output == escape.contained + "\n"
