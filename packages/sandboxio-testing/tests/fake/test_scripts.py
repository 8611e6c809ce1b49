"""What a test says that commands and code do, and what is remembered of them."""

from __future__ import annotations

import re
from typing import cast

import pytest

import sandboxio
from sandboxio import (
    Capability,
    ConfigurationError,
    ExecResult,
    ExecutionTimeout,
    NetworkPolicy,
    OutputChunk,
    ProviderError,
    Resources,
    RichOutput,
)
from sandboxio.audit import AuditConfig, AuditEvent
from sandboxio_testing import Call, FakeBackend


async def test_text_pattern_and_predicate_match(sbx_fake: FakeBackend) -> None:
    sbx_fake.on_run(match="make te", returns=ExecResult(2, "text", ""))
    sbx_fake.on_run(match=re.compile(r"^git \w+$"), returns=ExecResult(3, "pattern", ""))
    sbx_fake.on_run(match=lambda call: call.env.get("X") == "1", returns=ExecResult(4, "env", ""))
    sandbox = sbx_fake.sandbox
    assert (await sandbox.run("make test")).stdout == "text"
    assert (await sandbox.run(["git", "status"])).stdout == "pattern"
    assert (await sandbox.run("anything", env={"X": "1"})).exit_code == 4
    assert (await sandbox.run("git status -s")).exit_code == 127


async def test_last_word_counts_and_lasts_as_often_as_said(sbx_fake: FakeBackend) -> None:
    sbx_fake.on_run(match="build", returns=ExecResult(0, "built", ""))
    sbx_fake.on_run(match="build", returns=ExecResult(1, "", "flaky"), times=2)
    codes = [(await sbx_fake.sandbox.run("build")).exit_code for _ in range(4)]
    assert codes == [1, 1, 0, 0]


async def test_answer_may_be_made_of_the_call(sbx_fake: FakeBackend) -> None:
    def answer(call: Call) -> ExecResult:
        return ExecResult(0, f"{call.argv[-1]} in {call.cwd}", "")

    await sbx_fake.sandbox.files.mkdir("there")
    sbx_fake.on_run(match="show", returns=answer)
    assert (await sbx_fake.sandbox.run(["show", "me"], cwd="there")).stdout == "me in there"


async def test_scripted_command_obeys_the_deadline(sbx_fake: FakeBackend) -> None:
    sbx_fake.on_run(match="slow", returns=ExecResult(0, "late", ""), takes=50)
    sbx_fake.on_run(match="stuck", hangs=True)
    sandbox = sbx_fake.sandbox
    assert (await sandbox.run("slow", timeout=60)).stdout == "late"
    for command in ("slow", "stuck"):
        with pytest.raises(ExecutionTimeout):
            await sandbox.run(command, timeout=10)


async def test_error_of_the_provider_comes_out_wrapped_and_ours_as_it_is(
    sbx_fake: FakeBackend,
) -> None:
    sbx_fake.on_run(match="raw", raises=OSError("socket closed"))
    sbx_fake.on_run(match="ours", raises=sandboxio.RateLimitError("wait", retry_after=3))
    with pytest.raises(ProviderError) as wrapped:
        await sbx_fake.sandbox.run("raw")
    assert isinstance(wrapped.value.__cause__, OSError)
    with pytest.raises(sandboxio.RateLimitError) as ours:
        await sbx_fake.sandbox.run("ours")
    assert ours.value.retry_after == 3


async def test_code_is_scripted_with_rich_results(sbx_fake: FakeBackend) -> None:
    rich = (RichOutput("text/html", "<b>2</b>"),)
    sbx_fake.on_run_code(match="plot", returns=ExecResult(0, "", "", results=rich))
    result = await sbx_fake.sandbox.run_code("plot(data)", language="r")
    assert result.results == rich
    assert (await sbx_fake.sandbox.run_code("x = 1")).results == ()


async def test_last_expression_of_modelled_code_is_a_rich_result(sbx_fake: FakeBackend) -> None:
    result = await sbx_fake.sandbox.run_code("print('p')\nx = 6\nx * 7")
    assert (result.stdout, result.results) == ("p\n", (RichOutput("text/plain", "42"),))
    assert (await sbx_fake.sandbox.run_code("None")).results == ()


async def test_code_is_scripted_where_it_is_a_plain_command() -> None:
    fake = FakeBackend(
        capabilities=Capability.RUN_CODE | Capability.RUN_COMMAND | Capability.NETWORK_POLICY
    )
    fake.on_run_code(match="import pandas", returns=ExecResult(0, "2.2.1\n", ""))
    assert (await fake.sandbox.run_code("import pandas")).stdout == "2.2.1\n"
    assert fake.calls[-1].op == "run_code"
    assert fake.calls[-1].code == "import pandas"
    with pytest.raises(ConfigurationError, match="rich"):
        fake.on_run_code(match="x", returns=ExecResult(0, "", "", results=()))


async def test_stream_is_scripted_piece_by_piece(sbx_fake: FakeBackend) -> None:
    sbx_fake.on_stream(
        match="deploy",
        chunks=["one\n", 2.5, OutputChunk("stderr", b"warn\n"), b"two\n"],
        exit_code=3,
    )
    seen: list[tuple[float, str, bytes]] = []
    async with sbx_fake.sandbox.stream("deploy") as process:
        async for chunk in process:
            seen.append((sbx_fake.clock.current_time(), chunk.stream, chunk.data))
        result = await process.wait()
    assert seen == [(0, "stdout", b"one\n"), (2.5, "stderr", b"warn\n"), (2.5, "stdout", b"two\n")]
    assert (result.exit_code, result.streamed) == (3, True)


async def test_run_and_stream_are_scripted_apart(sbx_fake: FakeBackend) -> None:
    sbx_fake.on_stream(match="x", returns=ExecResult(5, "streamed", ""))
    assert (await sbx_fake.sandbox.run("x")).exit_code == 127
    async with sbx_fake.sandbox.stream("x") as process:
        assert (await process.wait()).exit_code == 5


def test_nonsense_is_refused_when_it_is_said(sbx_fake: FakeBackend) -> None:
    result = ExecResult(0, "", "")
    with pytest.raises(ConfigurationError, match="exactly one"):
        sbx_fake.on_run("x")
    with pytest.raises(ConfigurationError, match="exactly one"):
        sbx_fake.on_run("x", result, hangs=True)
    with pytest.raises(ConfigurationError, match="match"):
        sbx_fake.on_run(cast("str", 3), result)
    with pytest.raises(ConfigurationError, match="exit code"):
        sbx_fake.on_run("x", ExecResult(256, "", ""))
    with pytest.raises(ConfigurationError, match="ExecResult"):
        sbx_fake.on_run_code("x", cast("ExecResult", "2.2.1"))
    with pytest.raises(ConfigurationError, match="chunk"):
        sbx_fake.on_stream("x", chunks=[-1])


async def test_every_call_is_remembered_with_the_policy_in_effect(
    sbx_fake: FakeBackend, tmp_path: object
) -> None:
    network = NetworkPolicy(egress="deny", allow=("example.com",))
    async with await sbx_fake.create(
        template="python:3.12",
        resources=Resources(memory_mb=64),
        network=network,
        env={"A": "1"},
        secrets={"TOKEN": "hunter2!"},
        timeout=60,
        metadata={"tenant_id": "t1"},
    ) as sandbox:
        await sandbox.run(["echo", "hi"], timeout=5, env={"B": "2"}, cwd="/work", stdin="in")
        await sandbox.run_code("x = 1", context_id="c")
        async with sandbox.stream("true"):
            pass
        await sandbox.files.write("f", "data")
        await sandbox.files.read("f")
        await sandbox.files.ls()
        await sandbox.files.stat("f")
        await sandbox.files.mkdir("d")
        await sandbox.files.remove("d")
    await sbx_fake.list_managed()
    await sbx_fake.kill_managed("none")
    ops = (
        "create run run_code stream write read ls stat mkdir remove kill list_managed kill_managed"
    )
    assert [call.op for call in sbx_fake.calls] == ops.split()
    create, run, code = sbx_fake.calls[:3]
    assert (create.template, create.timeout, create.network) == ("python:3.12", 60, network)
    assert create.resources is not None
    assert (create.resources.memory_mb, create.resources.processes) == (64, 128)
    assert create.secret_names == {"TOKEN"}
    assert create.metadata == {"tenant_id": "t1"}
    assert run.argv == ("echo", "hi")
    assert run.command == "echo hi"
    assert (run.timeout, run.cwd, run.stdin, run.network) == (5, "/work", b"in", network)
    assert run.env == {"A": "1", "TOKEN": "hunter2!", "B": "2"}
    assert (code.code, code.context_id, code.language) == ("x = 1", "c", "python")
    assert sbx_fake.calls[4].data == b"data"
    assert "hunter2!" not in repr(sbx_fake.calls)


async def test_refused_call_never_reaches_the_fake(sbx_fake: FakeBackend) -> None:
    with pytest.raises(ConfigurationError):
        await sbx_fake.create(timeout=0)
    assert sbx_fake.calls == []


async def test_audit_events_are_those_of_the_engine() -> None:
    events: list[AuditEvent] = []

    class Sink:
        async def emit(self, event: AuditEvent) -> None:
            events.append(event)

    fake = FakeBackend(audit=AuditConfig(sinks=(Sink(),)))
    async with await fake.create(secrets={"TOKEN": "hunter2!"}) as sandbox:
        await sandbox.run(["sleep", "3", "&&", "hunter2!"])
    assert [event.event for event in events] == ["create", "exec", "kill"]
    assert "hunter2!" not in repr([event.as_dict() for event in events])
    with pytest.raises(ConfigurationError, match="audit"):
        _ = fake.sandbox


async def test_network_obeys_the_policy_and_is_remembered(sbx_fake: FakeBackend) -> None:
    sbx_fake.on_request("example.com/data", body="a,b\n")
    sbx_fake.on_request("broken", status=500)
    policies = {
        "deny": NetworkPolicy(),
        "list": NetworkPolicy(allow=("example.com", "*.python.org", "10.0.0.0/8")),
        "allow": NetworkPolicy(egress="allow"),
    }
    reached: dict[str, list[int]] = {}
    urls = (
        "https://example.com/data",
        "http://docs.python.org",
        "http://10.1.2.3/",
        "http://evil.test",
    )
    for name, policy in policies.items():
        async with await sbx_fake.create(network=policy) as sandbox:
            results = [await sandbox.run(["curl", "-s", url]) for url in urls]
            reached[name] = [result.exit_code for result in results]
            code = "import urllib.request\nprint(urllib.request.urlopen('https://example.com/data').read())"
            result = await sandbox.run_code(code)
            assert result.ok == (name != "deny"), result.stderr
    assert reached == {"deny": [6, 6, 7, 6], "list": [0, 0, 0, 6], "allow": [0, 0, 0, 0]}
    denied = [attempt.host for attempt in sbx_fake.egress if not attempt.allowed]
    assert denied == [
        "example.com",
        "docs.python.org",
        "10.1.2.3",
        "evil.test",
        "example.com",
        "evil.test",
    ]
    async with await sbx_fake.create(network=policies["allow"]) as sandbox:
        assert (await sandbox.run("curl -s https://example.com/data")).stdout == "a,b\n"
        assert (await sandbox.run("curl -sf http://broken.test")).exit_code == 22
