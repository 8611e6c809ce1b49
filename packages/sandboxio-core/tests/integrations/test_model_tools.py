"""What every framework's tools share: the text for a model, its limits, and whose the sandbox is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import sandboxio
from sandboxio import ExecResult, NetworkPolicy, RichOutput
from sandboxio.errors import (
    BackendNotInstalled,
    ConfigurationError,
    OutputLimitExceeded,
    SandboxUnreachable,
)
from sandboxio.integrations import _model_text as text
from sandboxio.integrations._model_tools import ModelTools
from sandboxio_testing import FakeBackend

LIMIT = 1000

BOUND = 30.0
"""Seconds for what happens at once."""


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    made = FakeBackend()
    yield made
    made.close()


def tools(source: Any, **options: Any) -> ModelTools:
    return ModelTools(source, **{"timeout": 30, "max_output": LIMIT, **options})


# --- results as text


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (ExecResult(0, "42\n", ""), "42"),
        (ExecResult(0, "", ""), "[no output]"),
        (ExecResult(0, " \n", "\n"), "[no output]"),
        (ExecResult(3, "", ""), "[exit code 3]"),
        (ExecResult(1, "a\n", "boom\n"), "a\n[stderr]\nboom\n[exit code 1]"),
        (ExecResult(0, "", "careful\n"), "[stderr]\ncareful"),
        (ExecResult(0, "", "", results=(RichOutput("text/plain", "7"),)), "7"),
        (
            ExecResult(0, "x\n", "", results=(RichOutput("image/png", "aGk="),)),
            "x\n[a result of type image/png]",
        ),
    ],
)
def test_result_reads_as_what_was_printed_and_how_it_ended(
    result: ExecResult, expected: str
) -> None:
    assert text.render(result, LIMIT) == expected


@pytest.mark.parametrize(
    "result",
    [
        ExecResult(1, "a" * 5000, "b" * 5000),
        ExecResult(1, "", "a" * 9999 + "b"),
        ExecResult(1, "a", "b", results=(RichOutput("text/plain", "c" * 9998),)),
    ],
)
def test_long_output_keeps_its_head_its_tail_and_the_exit_code(result: ExecResult) -> None:
    shown = text.render(result, LIMIT)
    assert len(shown) < LIMIT + 200
    assert shown.endswith("b\n[exit code 1]")
    assert "characters left out here" in shown


def test_cut_says_how_much_is_missing() -> None:
    shown = text.cut("a" * 60 + "b" * 60, 100)
    assert shown.startswith("a" * 50)
    assert shown.endswith("b" * 50)
    assert "[20 characters left out here" in shown
    assert text.cut("a" * 100, 100) == "a" * 100


def test_error_reads_as_code_fix_address_and_what_was_written_before() -> None:
    error = OutputLimitExceeded("Too much.", limit="output_mb", stdout="head … tail", hint="Less.")
    shown = text.explain(error, LIMIT)
    assert shown.startswith("head … tail\n[SBX_E1406] Too much.")
    assert "Fix:  Less." in shown
    assert error.url in shown


def test_error_of_any_length_is_cut() -> None:
    error = OutputLimitExceeded("m" * 9000, limit="output_mb", stdout="o" * 9000)
    assert len(text.explain(error, LIMIT)) < 2 * LIMIT + 400


def test_missing_framework_is_an_error_that_installs_it() -> None:
    error = text.missing("langchain-core", "langchain", ImportError("no module"))
    assert isinstance(error, BackendNotInstalled)
    assert error.hint == 'uv pip install "sandboxio[langchain]"'


# --- calls


async def test_code_and_commands_are_answered_with_what_they_wrote(fake: FakeBackend) -> None:
    fake.on_run_code(match="6 * 7", returns=ExecResult(0, "42\n", ""))
    both = tools(fake.sandbox)
    assert await both.run_python("print(6 * 7)") == "42"
    assert await both.run_command("echo hello && false") == "hello\n[exit code 1]"


def test_a_sync_sandbox_is_used_without_an_event_loop(fake: FakeBackend) -> None:
    both = tools(fake.sync_sandbox)
    assert both.can_block
    assert both.run_command_sync("echo hello") == "hello"
    assert both.run_python_sync("print('hi')") == "hi"


async def test_a_sync_sandbox_is_used_from_an_event_loop_without_blocking_it(
    fake: FakeBackend,
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def in_the_sandbox(call: object) -> ExecResult:
        begun.set()
        return ExecResult(0, "the loop ran\n" if go_on.wait(BOUND) else "the loop stood\n", "")

    fake.on_run(match="wait", returns=in_the_sandbox)
    both = tools(fake.sync_sandbox)
    answers: list[str] = []

    async def call() -> None:
        answers.append(await both.run_command("wait"))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        while not begun.is_set():
            await anyio.lowlevel.checkpoint()
        go_on.set()
    assert answers == ["the loop ran"]


def test_a_sandbox_of_a_loop_cannot_be_used_without_it(fake: FakeBackend) -> None:
    both = tools(fake.sandbox)
    assert not both.can_block
    assert "SBX_E1000" in both.run_command_sync("echo hello")
    assert [call.op for call in fake.calls] == ["create"]


# --- errors


@pytest.mark.parametrize("bad", ["", "nul \0 byte", "\ud800"])
async def test_what_no_program_can_be_is_answered_with_code_and_fix(
    fake: FakeBackend, bad: str
) -> None:
    both = tools(fake.sandbox)
    assert "[SBX_E1000]" in await both.run_command(bad)
    # The interpreter itself says what is wrong with source text, where it can be sent to it at all.
    assert await both.run_python(bad)


async def test_timeout_is_answered_with_what_was_written_until_then(fake: FakeBackend) -> None:
    answer = await tools(fake.sandbox, timeout=5).run_command("echo begun && sleep 3600")
    assert "begun" in answer
    assert "SBX_E1302" in answer


async def test_a_dead_sandbox_is_answered_with_code_and_fix(fake: FakeBackend) -> None:
    both = tools(fake.sandbox)
    await fake.sandbox.kill()
    assert "SBX_E1204" in await both.run_python("print(1)")


async def test_a_sandbox_that_cannot_be_made_is_answered_with_code_and_fix() -> None:
    async def make() -> sandboxio.protocols.AsyncSandbox:
        raise SandboxUnreachable("Nobody answers.")

    both = tools(make)
    assert "SBX_E1205" in await both.run_python("print(1)")
    assert "SBX_E1205" in await anyio.to_thread.run_sync(both.run_python_sync, "print(1)")


async def test_anybody_elses_error_is_raised(fake: FakeBackend) -> None:
    def broken(call: object) -> ExecResult:
        raise ZeroDivisionError("a bug of the program around the tools")

    async def make() -> sandboxio.protocols.AsyncSandbox:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await tools(make).run_command("echo")
    with pytest.raises(ZeroDivisionError):
        await anyio.to_thread.run_sync(tools(make).run_command_sync, "echo")


# --- whose the sandbox is


async def test_a_sandbox_of_the_caller_outlives_every_call(fake: FakeBackend) -> None:
    both = tools(fake.sandbox)
    await both.run_python("print(1)")
    await both.run_command("exit 3")
    await tools(fake.sandbox, timeout=1).run_command("sleep 100")
    assert fake.live_sandboxes == (fake.sandbox.id,)
    assert (await fake.sandbox.run(["echo", "alive"])).stdout == "alive\n"


@pytest.mark.parametrize("command", ["echo fine", "exit 3", "sleep 100"])
async def test_a_sandbox_of_the_tool_ends_with_its_call(fake: FakeBackend, command: str) -> None:
    both = tools(fake.create, timeout=10)
    await both.run_command(command)
    await anyio.to_thread.run_sync(both.run_command_sync, command)
    assert [call.op for call in fake.calls].count("create") == 2
    assert fake.live_sandboxes == ()


async def test_a_cancelled_call_ends_the_sandbox_that_it_made(fake: FakeBackend) -> None:
    with fake.clock.held():
        async with anyio.create_task_group() as group:
            group.start_soon(tools(fake.create).run_command, "sleep 1000")
            with anyio.move_on_after(BOUND):
                while not any(call.op == "run" for call in fake.calls):
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert fake.live_sandboxes == ()


# --- defaults and limits


async def test_nothing_is_loosened(fake: FakeBackend) -> None:
    """Every call is bounded, and a sandbox that a tool makes is the one that was asked for."""
    await tools(fake.create).run_command("echo")
    await tools(fake.create).run_python("print(1)")
    created = [call for call in fake.calls if call.op == "create"]
    ran = [call for call in fake.calls if call.op in ("run", "run_code")]
    assert [call.network for call in created] == [NetworkPolicy(), NetworkPolicy()]
    assert [call.timeout for call in ran] == [30, 30]


@pytest.mark.parametrize("timeout", [None, 0, -1, float("inf"), float("nan"), "60", True])
def test_a_call_without_a_bound_is_refused(fake: FakeBackend, timeout: Any) -> None:
    with pytest.raises(ConfigurationError):
        tools(fake.sandbox, timeout=timeout)


@pytest.mark.parametrize("max_output", [0, -1, 199, True])
def test_output_without_room_is_refused(fake: FakeBackend, max_output: int) -> None:
    with pytest.raises(ConfigurationError):
        tools(fake.sandbox, max_output=max_output)


@pytest.mark.parametrize("source", ["local://", None, 7])
def test_what_is_no_sandbox_is_refused(source: Any) -> None:
    with pytest.raises(ConfigurationError):
        tools(source)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (NetworkPolicy(), "There is no network."),
        (NetworkPolicy(egress="allow"), "The network can be reached."),
        (NetworkPolicy(allow=("a.example", "b.example")), "only this can be reached: a.example, b"),
        (None, "Expect no network."),
    ],
)
def test_description_tells_the_network(network: NetworkPolicy | None, words: str) -> None:
    assert words in text.limits_in_words(network, 60, 1000)


def test_description_tells_limits_and_what_is_kept(fake: FakeBackend) -> None:
    both = tools(fake.sandbox, timeout=7.5)
    assert both.about_python != both.about_command
    each: list[Callable[[ModelTools], str]] = [
        lambda it: it.about_python,
        lambda it: it.about_command,
    ]
    for about in each:
        assert "after 7.5 seconds" in about(both)
        assert f"more than {LIMIT} characters" in about(both)
        assert "There is no network." in about(both)
        assert "files in the working directory do" in about(both)
        assert "a new, empty sandbox" in about(tools(partial(fake.create)))
