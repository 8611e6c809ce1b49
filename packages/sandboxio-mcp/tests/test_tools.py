"""What the tools return, over the official client in this process."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult

from sandboxio.errors import ConfigurationError, SandboxGone
from sandboxio.models import ExecResult, NetworkPolicy, Resources, RichOutput
from sandboxio_mcp import ServerConfig, WorkingFile, build_server
from sandboxio_mcp._pages import PAGE_BYTES, PAGE_CHARACTERS
from sandboxio_testing import FakeBackend, offline

BOUND = 60.0
"""Seconds for a whole conversation; what takes longer waits for what does not come."""

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

LOCAL = ServerConfig(backend="local://")


@asynccontextmanager
async def client_of(config: ServerConfig) -> AsyncGenerator[Client, None]:
    with anyio.fail_after(BOUND):
        async with Client(build_server(config)) as client:
            yield client


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


async def call(client: Client, name: str, **arguments: object) -> CallToolResult:
    result = await client.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    return result


# --- nothing happens before the first call


async def test_listing_tools_starts_no_sandbox_and_the_first_call_starts_one(
    sbx_offline: FakeBackend,
) -> None:
    async with client_of(ServerConfig()) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [
            "run_python",
            "run_command",
            "read_file",
            "write_file",
            "list_files",
            "sandbox_info",
            "read_more",
        ]
        assert sbx_offline.calls == []
        await call(client, "run_command", command="echo 1")
        await call(client, "run_command", command="echo 2")
        assert [one.op for one in sbx_offline.calls] == ["create", "run", "run"]
    assert not sbx_offline.open_sandboxes


async def test_calls_at_the_same_time_share_one_sandbox(sbx_offline: FakeBackend) -> None:
    sbx_offline.simulate(create_takes=5)
    async with client_of(ServerConfig()) as client:
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(client.call_tool, "run_command", {"command": f"echo {number}"})
        assert sorted(one.op for one in sbx_offline.calls) == ["create", *["run"] * 20]


async def test_the_sandbox_is_made_as_the_server_was_configured(
    sbx_offline: FakeBackend, tmp_path: Path
) -> None:
    (tmp_path / "data.csv").write_text("a,b\n")
    config = ServerConfig(
        backend="docker://python:3.12-slim",
        network=NetworkPolicy(allow=("packages.example.org",)),
        resources=Resources(memory_mb=128),
        lifetime=77,
        files=(WorkingFile(tmp_path / "data.csv", "data.csv"),),
    )
    async with client_of(config) as client:
        assert text_of(await call(client, "read_file", path="data.csv")) == "a,b\n"
        info = (await call(client, "sandbox_info")).structured_content
    assert info["policy"]["network"]["egress"] == "deny"
    assert info["policy"]["network"]["allow"] == ["packages.example.org"]
    assert info["policy"]["memory_mb"]["value"] == 128
    assert info["policy"]["lifetime_s"] == 77


async def test_nothing_said_means_deny_and_an_hour(sbx_offline: FakeBackend) -> None:
    async with client_of(ServerConfig()) as client:
        info = (await call(client, "sandbox_info")).structured_content
    assert info["policy"]["network"]["egress"] == "deny"
    assert info["policy"]["lifetime_s"] == 3600


async def test_the_lifetime_of_the_dsn_counts(sbx_offline: FakeBackend) -> None:
    async with client_of(ServerConfig(backend="docker://?timeout=99")) as client:
        info = (await call(client, "sandbox_info")).structured_content
    assert info["policy"]["lifetime_s"] == 99


# --- results


async def test_a_program_returns_its_output_and_its_exit_code() -> None:
    async with client_of(LOCAL) as client:
        code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
        result = await call(client, "run_python", code=code)
        assert result.is_error is False
        assert result.structured_content == {
            "exit_code": 3,
            "stdout": "out\n",
            "stderr": "err\n",
            "results": [],
            "more": [],
        }
        assert text_of(result) == "exit code: 3\n--- stdout\nout\n--- stderr\nerr"
        quiet = await call(client, "run_command", command="true")
        assert text_of(quiet) == "exit code: 0"


async def test_files_are_written_listed_and_read_and_persist_between_calls() -> None:
    async with client_of(LOCAL) as client:
        written = await call(client, "write_file", path="a/b/c.txt", content="grüße\n")
        assert text_of(written) == "Wrote 8 bytes to a/b/c.txt."
        assert text_of(await call(client, "read_file", path="a/b/c.txt")) == "grüße\n"
        listed = await call(client, "list_files", path="a")
        assert [(e["path"], e["is_dir"]) for e in listed.structured_content["entries"]] == [
            ("a/b", True)
        ]
        ran = await call(client, "run_python", code="print(open('a/b/c.txt').read())")
        assert ran.structured_content["stdout"] == "grüße\n\n"


async def test_an_image_file_is_an_image_and_other_binary_data_a_blob() -> None:
    async with client_of(LOCAL) as client:
        code = f"open('x.png', 'wb').write({PNG!r}); open('y.bin', 'wb').write(bytes(range(256)))"
        assert (await call(client, "run_python", code=code)).structured_content["exit_code"] == 0
        (image,) = (await call(client, "read_file", path="x.png")).content
        assert image.type == "image"
        assert image.mime_type == "image/png"
        assert base64.b64decode(image.data) == PNG
        blob: Any = (await call(client, "read_file", path="y.bin")).content[0]
        assert blob.resource.uri == "sandbox:///y.bin"
        assert base64.b64decode(blob.resource.blob) == bytes(range(256))


async def test_a_name_that_lies_about_an_image_does_not_make_one() -> None:
    async with client_of(LOCAL) as client:
        await call(client, "run_python", code="open('x.png', 'wb').write(b'\\0not one')")
        blob: Any = (await call(client, "read_file", path="x.png")).content[0]
        assert blob.resource.mime_type == "application/octet-stream"


async def test_what_a_program_displays_becomes_content_of_its_kind(
    sbx_offline: FakeBackend,
) -> None:
    table = "<table><tr><td>1</td></tr></table>"
    displayed = (
        RichOutput("text/plain", "   a\n0  1"),
        RichOutput("text/html", table),
        RichOutput("image/png", base64.encodebytes(PNG).decode()),
        RichOutput("image/png", "???"),
        RichOutput("image/png", base64.b64encode(PNG + bytes(PAGE_BYTES)).decode()),
        RichOutput("application/json", '{"a": 1}'),
    )
    sbx_offline.on_run_code("plot", ExecResult(0, "", "", results=displayed))
    async with client_of(ServerConfig()) as client:
        result = await call(client, "run_python", code="plot()")
    blocks: list[Any] = result.content
    assert [block.type for block in blocks] == [
        "text",
        "text",
        "resource",
        "image",
        "text",
        "text",
        "text",
    ]
    assert blocks[1].text == "   a\n0  1"
    assert (blocks[2].resource.mime_type, blocks[2].resource.text) == ("text/html", table)
    assert base64.b64decode(blocks[3].data) == PNG
    assert "not base64" in blocks[4].text
    assert "too large" in blocks[5].text
    assert blocks[6].text == '{"a": 1}'
    assert [one["content"] for one in result.structured_content["results"]] == [1, 2, 3, 4, 5, 6]


async def test_what_a_hostile_program_displays_neither_floods_nor_breaks_the_answer(
    sbx_offline: FakeBackend,
) -> None:
    lone = "\udcff\ud800"
    displayed = (
        RichOutput(f"image/{lone}" + "x" * 1000, lone),
        RichOutput("text/html", lone),
        RichOutput("image/png", lone),
        *(RichOutput("text/plain", "x" * 1_000_000) for _ in range(1000)),
    )
    sbx_offline.on_run_code("evil", ExecResult(0, "", "", results=displayed))
    async with client_of(ServerConfig()) as client:
        result = await call(client, "run_python", code="evil()")
        assert len(result.model_dump_json()) < 1024 * 1024
        assert "971 more results are not shown" in text_of(result)
        assert "no room left" in text_of(result)
        assert not (await call(client, "run_python", code="print(1)")).is_error


async def test_file_names_that_are_no_text_are_shown_escaped() -> None:
    async with client_of(LOCAL) as client:
        await call(client, "run_python", code="open(b'caf\\xe9', 'w').close()")
        listed = await call(client, "list_files")
        assert listed.structured_content["entries"][0]["path"] == "caf\\xe9"
        assert "caf\\xe9" in text_of(listed)


# --- large results


async def test_ten_mib_of_output_come_in_pages_that_make_up_the_whole() -> None:
    async with client_of(LOCAL) as client:
        code = "import sys\nfor i in range(1024 * 640): sys.stdout.write(f'{i:015d}\\n')"
        result = await call(client, "run_python", code=code)
        assert len(json.dumps(result.model_dump(mode="json"))) < 512 * 1024
        (more,) = result.structured_content["more"]
        whole = "".join(f"{i:015d}\n" for i in range(1024 * 640))
        assert more["pages"] == -(-len(whole) // PAGE_CHARACTERS)
        parts = [result.structured_content["stdout"]]
        for page in (2, 3, more["pages"]):
            answer = await call(client, "read_more", handle=more["handle"], page=page)
            text, _, where = text_of(answer).rpartition("\n[")
            assert where.startswith(f"page {page} of {more['pages']}")
            parts.append(text)
        size = PAGE_CHARACTERS
        assert parts == [
            whole[:size],
            whole[size : 2 * size],
            whole[2 * size : 3 * size],
            whole[(more["pages"] - 1) * size :],
        ]
        for page in (0, -1, more["pages"] + 1):
            wrong = await call(client, "read_more", handle=more["handle"], page=page)
            assert wrong.is_error
            assert f"The pages are 1 to {more['pages']}" in text_of(wrong)


async def test_a_large_binary_file_comes_in_pages() -> None:
    async with client_of(LOCAL) as client:
        code = "open('big', 'wb').write(bytes(range(256)) * 4096)"
        await call(client, "run_python", code=code)
        first = await call(client, "read_file", path="big")
        assert "page 1 of 3" in text_of(first)
        handle = text_of(first).split('handle="')[1].split('"')[0]
        data = b""
        for page in (1, 2, 3):
            answer: Any = await call(client, "read_more", handle=handle, page=page)
            data += base64.b64decode(answer.content[0].resource.blob)
        assert data == bytes(range(256)) * 4096


async def test_only_the_last_large_results_are_kept() -> None:
    async with client_of(LOCAL) as client:
        handles: list[str] = []
        for _ in range(9):
            result = await call(client, "run_python", code="print('x' * 40000)")
            handles.append(result.structured_content["more"][0]["handle"])
        gone = await call(client, "read_more", handle=handles[0], page=2)
        assert gone.is_error
        assert "only the last few" in text_of(gone)
        assert not (await call(client, "read_more", handle=handles[1], page=2)).is_error


async def test_more_output_than_the_engine_holds_is_an_error_with_a_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SBX_MAX_OUTPUT_MB", "1")
    async with client_of(LOCAL) as client:
        result = await call(client, "run_command", command="yes")
        assert result.is_error
        assert result.structured_content["error"]["code"] == "SBX_E1406"
        assert "Write the output to a file" in text_of(result)
        assert "--- stdout until then\ny\ny\n" in text_of(result)


# --- errors


async def test_an_error_is_a_result_with_code_fix_and_page() -> None:
    async with client_of(LOCAL) as client:
        result = await call(client, "read_file", path="nowhere")
        assert result.is_error
        assert result.structured_content["error"]["code"] == "SBX_E1701"
        assert text_of(result).splitlines()[1:] == [
            "Fix: Look at what is there with list_files.",
            "Docs: https://docs.sandboxio.dev/errors/SBX_E1701",
        ]


async def test_a_call_that_takes_too_long_is_stopped_and_returns_what_it_printed() -> None:
    config = ServerConfig(backend="local://", call_timeout=5)
    async with client_of(config) as client:
        result = await call(client, "run_command", command="echo before; sleep 100; echo after")
        assert result.is_error
        assert result.structured_content["error"]["code"] == "SBX_E1302"
        assert "before" in text_of(result)
        assert "background" in result.structured_content["error"]["fix"]
        assert (await call(client, "run_command", command="true")).is_error is False


async def test_a_backend_that_is_missing_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    async with client_of(ServerConfig(backend="docker://")) as client:
        result = await call(client, "run_command", command="true")
        assert result.is_error
        assert result.structured_content["error"]["code"].startswith("SBX_E12")
        again = await call(client, "run_command", command="true")
        assert again.is_error


@pytest.mark.parametrize(
    ("name", "arguments", "wrong"),
    [
        ("run_python", {}, "needs the argument 'code'"),
        ("run_python", {"code": 1}, "must be a string"),
        ("run_python", {"code": None}, "needs the argument 'code'"),
        ("run_python", {"code": "1", "timeout": 5}, "has no argument 'timeout'"),
        ("run_python", {"code": "x" * 2_000_001}, "is longer than"),
        ("read_more", {"handle": "x", "page": "1"}, "must be an integer"),
        ("read_more", {"handle": "x", "page": True}, "must be an integer"),
        ("sandbox_info", {"backend": "local://"}, "has no argument 'backend'"),
    ],
)
async def test_wrong_arguments_are_told_and_start_nothing(
    sbx_offline: FakeBackend, name: str, arguments: dict[str, object], wrong: str
) -> None:
    async with client_of(ServerConfig()) as client:
        result = await call(client, name, **arguments)
        assert result.is_error
        assert wrong in text_of(result)
    assert sbx_offline.calls == []


async def test_an_unknown_tool_is_an_error_of_the_protocol(sbx_offline: FakeBackend) -> None:
    async with client_of(ServerConfig()) as client:
        with pytest.raises(MCPError, match="no tool of that name"):
            await client.call_tool("configure", {"backend": "local://"})


async def test_a_fault_that_nobody_knows_is_answered_without_its_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(FakeBackend):
        async def create(self, *arguments: Any, **options: Any) -> Any:
            raise RuntimeError("a secret detail")  # no backend may; one of a third party might

    with offline(Broken()):
        async with client_of(ServerConfig()) as client:
            result = await call(client, "run_command", command="true")
            assert result.is_error
            assert "its log says how" in text_of(result)
            assert "secret" not in text_of(result)
    assert "a secret detail" in caplog.text


# --- sandboxes that end


async def test_a_sandbox_that_is_gone_is_told_and_the_next_call_gets_a_new_one(
    sbx_offline: FakeBackend,
) -> None:
    async with client_of(ServerConfig()) as client:
        await call(client, "write_file", path="kept.txt", content="x")
        (sandbox_id,) = sbx_offline.open_sandboxes
        sbx_offline.expire(sandbox_id)
        gone = await call(client, "run_command", command="echo hi")
        assert gone.structured_content["error"]["code"] == SandboxGone.code
        assert "Call again" in gone.structured_content["error"]["fix"]
        fresh = await call(client, "list_files")
        assert text_of(fresh).startswith("Note: this is a new sandbox.")
        assert "kept.txt" not in text_of(fresh)
        assert "Note" not in text_of(await call(client, "list_files"))


async def test_a_sandbox_without_calls_is_ended_and_replaced(sbx_offline: FakeBackend) -> None:
    async with client_of(ServerConfig(idle=0.2)) as client:
        await call(client, "run_command", command="true")
        while sbx_offline.open_sandboxes:
            await anyio.lowlevel.checkpoint()
        answer = await call(client, "run_command", command="true")
        assert "there was no call for 0.2 s" in text_of(answer)


async def test_a_sandbox_that_cannot_get_its_files_is_ended(
    sbx_offline: FakeBackend, tmp_path: Path
) -> None:
    config = ServerConfig(files=(WorkingFile(tmp_path / "gone.txt", "x"),))
    async with client_of(config) as client:
        result = await call(client, "run_command", command="true")
        assert result.structured_content["error"]["code"] == "SBX_E1701"
        assert not sbx_offline.open_sandboxes


class Slow(FakeBackend):
    """A backend whose first sandbox never gets ready; it ends one that was given up, as all do."""

    def __init__(self) -> None:
        super().__init__()
        self.starting = anyio.Event()

    async def create(self, *arguments: Any, **options: Any) -> Any:
        sandbox = await super().create(*arguments, **options)
        if not self.starting.is_set():
            self.starting.set()
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await sandbox.kill()
        return sandbox


async def test_a_call_may_be_cancelled_while_its_sandbox_starts_and_the_next_one_gets_it() -> None:
    heard: list[str | None] = []
    told = anyio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)
        told.set()

    with offline(Slow()) as fake:
        assert isinstance(fake, Slow)
        async with client_of(ServerConfig(progress_interval=0.05)) as client:
            async with anyio.create_task_group() as group:
                call_it = partial(client.call_tool, "sandbox_info", {}, progress_callback=hear)
                group.start_soon(call_it)
                await fake.starting.wait()
                await told.wait()
                group.cancel_scope.cancel()
            assert "waiting for the sandbox to start" in str(heard[0])
            assert not (await call(client, "run_command", command="true")).is_error
            assert len(fake.open_sandboxes) == 1


async def test_a_sandbox_that_does_not_start_is_an_error_in_time() -> None:
    with offline(Slow()) as fake:
        async with client_of(ServerConfig(start_timeout=0.1)) as client:
            result = await call(client, "run_command", command="true")
            assert result.structured_content["error"]["code"] == "SBX_E1203"
            assert "--start-timeout" in text_of(result)
            assert not fake.open_sandboxes


def stop_all_beside(pid: int) -> None:
    """Stop every process of a sandbox, the guest included, as only the host can."""
    inside = Path(f"/proc/{pid}/ns/pid").readlink()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "ns/pid").readlink() == inside:
                    os.kill(int(entry.name), signal.SIGSTOP)
            except (FileNotFoundError, PermissionError, ProcessLookupError):
                continue  # it ended meanwhile, or is not ours


@pytest.mark.slow
async def test_a_sandbox_that_stops_answering_is_an_error_in_time(
    alive: Callable[[str], list[int]], token: str, background: str
) -> None:
    async with client_of(ServerConfig(backend="local://", call_timeout=5)) as client:
        await call(client, "run_command", command=background)
        stop_all_beside(alive(token)[0])
        result = await call(client, "list_files")
        assert result.is_error
        assert result.structured_content["error"]["code"] == "SBX_E1302"
    assert not alive(token)


# --- what is told to the model


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (None, "There is no network"),
        (NetworkPolicy(egress="allow"), "The network can be reached"),
        (
            NetworkPolicy(allow=("packages.example.org",)),
            "only these can be reached: packages.example.org",
        ),
    ],
)
async def test_the_descriptions_state_the_limits_of_this_server(
    network: NetworkPolicy | None, words: str
) -> None:
    async with client_of(ServerConfig(network=network, call_timeout=17)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    for name in ("run_python", "run_command"):
        description = tools[name].description or ""
        assert words in description
        assert "stopped after 17 s" in description
    for tool in tools.values():
        assert "{" not in (tool.description or "")
        assert tool.input_schema["additionalProperties"] is False


async def test_no_tool_takes_anything_that_configures(sbx_offline: FakeBackend) -> None:
    async with client_of(ServerConfig()) as client:
        tools = (await client.list_tools()).tools
    taken = {name for tool in tools for name in tool.input_schema["properties"]}
    assert taken == {"code", "command", "path", "content", "handle", "page"}


@pytest.mark.parametrize("name", ["call_timeout", "idle", "lifetime", "start_timeout"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_a_bound_that_is_none_is_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=name):
        replace(ServerConfig(), **{name: value})
