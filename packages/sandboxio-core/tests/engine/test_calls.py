"""What the calls of a sandbox refuse, and what streams promise."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxio import PIPE
from sandboxio.errors import CapabilityNotSupported, ConfigurationError, ExecutionTimeout
from sandboxio.models import Capability, OutputChunk
from sandboxio.spi import DriverBackend

Act = Callable[[], Awaitable[Any]]

NAN, INF = float("nan"), float("inf")


async def outcome(call: Callable[[], Any]) -> Any:
    """Make a call, whether it is a coroutine or not."""
    result = call()
    return await result if inspect.isawaitable(result) else result


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("run", {"cmd": wrong})
    for wrong in ("", "  ", [], [""], ["", "x"], None, 1, b"x", {"a": 1}, {"a"}, ["x", 1],
                  ["x", None], ["x\0"], "x\0", ["x", "\ud800"], [b"x"], [["x"]])
]  # fmt: skip
CALLS += [
    (call, {first: "x", "timeout": wrong})
    for call, first in (("run", "cmd"), ("stream", "cmd"), ("run_code", "code"))
    for wrong in (0, -1, NAN, INF, True, "1", b"1", [])
]
CALLS += [
    (call, {first: "x", "env": wrong})
    for call, first in (("run", "cmd"), ("stream", "cmd"), ("run_code", "code"))
    for wrong in ("A=B", [], {"": "x"}, {"A=": "x"}, {"A": 1}, {"A": "\0"}, {None: "x"})
]
CALLS += [
    (call, {"cmd": "x", "cwd": wrong}) for call in ("run", "stream") for wrong in ("", 1, "a\0", [])
]
CALLS += [
    (call, {"cmd": "x", "stdin": wrong})
    for call in ("run", "stream")
    for wrong in (1, [], {}, "\ud800")
]
CALLS += [("run_code", {"code": wrong}) for wrong in (None, 1, b"x", "\ud800", ["x"])]
CALLS += [("run_code", {"code": "x", "language": wrong}) for wrong in (None, 1, "a\0")]
CALLS += [("run_code", {"code": "x", "context_id": wrong}) for wrong in (1, "a\0")]
CALLS += [
    (f"files.{call}", {"path": wrong})
    for call in ("read", "ls", "mkdir", "remove", "stat")
    for wrong in ("", None, 1, b"x", "a\0b", "\ud800", Path("x"))
]
CALLS += [("files.write", {"path": "x", "data": wrong}) for wrong in (None, 1, [], "\ud800")]
CALLS += [("files.upload", {"local": wrong, "remote": "x"}) for wrong in ("", None, 1, "a\0", b"x")]
CALLS += [("files.download", {"local": wrong, "remote": "x"}) for wrong in ("", None, 1, "a\0")]
CALLS += [("files.upload", {"local": "x", "remote": wrong}) for wrong in ("", None, "a\0")]


@pytest.mark.parametrize(("call", "arguments"), CALLS, ids=repr)
async def test_wrong_argument_is_refused_before_the_driver_is_asked(
    backend: DriverBackend, driver: Any, call: str, arguments: dict[str, Any]
) -> None:
    sandbox: Any = await backend.create()
    where, _, name = call.rpartition(".")
    method = getattr(sandbox.files if where else sandbox, name)
    with pytest.raises(ConfigurationError):
        await outcome(lambda: method(**arguments))
    script = driver.sandboxes[-1]
    assert script.calls == []
    assert script.commands == []
    await sandbox.kill()


@pytest.mark.parametrize(
    ("lacking", "use"),
    [
        (Capability.RUN_COMMAND, lambda s: s.run(["x"])),
        (Capability.RUN_CODE, lambda s: s.run_code("x")),
        (Capability.STREAMING, lambda s: s.stream(["x"])),
        (Capability.STDIN, lambda s: s.run(["x"], stdin=b"")),
        (Capability.STDIN, lambda s: s.stream(["x"], stdin=PIPE)),
        (Capability.FILESYSTEM, lambda s: s.files.read("x")),
        (Capability.FILESYSTEM, lambda s: s.files.write("x", "")),
        (Capability.FILESYSTEM, lambda s: s.files.ls()),
        (Capability.UPLOAD_DOWNLOAD, lambda s: s.files.download("x", "y")),
        (Capability.STATEFUL_CODE, lambda s: s.run_code("x", context_id="c")),
        (Capability.RUN_CODE, lambda s: s.run_code("x", language="ruby")),
    ],
)
async def test_undeclared_capability_is_refused_by_its_name(
    backend: DriverBackend, driver: Any, lacking: Capability, use: Callable[[Any], Any]
) -> None:
    sandbox = await backend.create()
    script = driver.sandboxes[-1]
    if lacking in script.capabilities and "ruby" not in inspect.getsource(use):
        script.capabilities &= ~lacking
    with pytest.raises(CapabilityNotSupported) as caught:
        await outcome(lambda: use(sandbox))
    assert caught.value.capability == lacking
    assert script.commands == []
    await sandbox.kill()


async def test_call_without_a_timeout_inherits_what_is_left(
    backend: DriverBackend, driver: Any
) -> None:
    sandbox = await backend.create()
    script = driver.sandboxes[-1]
    await sandbox.run(["x"])
    await sandbox.run(["x"], timeout=5)
    inherited, given = (command.timeout for command in script.commands)
    assert script.remaining <= inherited <= script.remaining + 10
    assert given == 5
    await sandbox.kill()


async def test_string_is_a_shell_script_and_a_list_is_not(
    backend: DriverBackend, driver: Any
) -> None:
    sandbox = await backend.create(env={"A": "1", "B": "2"})
    await sandbox.run("echo $A", env={"B": "3"})
    await sandbox.run(("echo", "$A"))
    first, second = driver.sandboxes[-1].commands
    assert first.argv == ("/bin/sh", "-c", "echo $A")
    assert first.env == {"A": "1", "B": "3"}
    assert second.argv == ("echo", "$A")
    assert second.env == {"A": "1", "B": "2"}
    await sandbox.kill()


# ----- streams, with a real guest


async def test_stream_is_not_awaitable_and_starts_when_it_is_entered(
    backend: DriverBackend, driver: Any
) -> None:
    sandbox = await backend.create()
    process: Any = sandbox.stream(["x"])
    assert not inspect.isawaitable(process)
    assert driver.sandboxes[-1].commands == []
    for use in (process.wait, process.kill, process.send_eof, lambda: process.send(b"")):
        with pytest.raises(ConfigurationError, match="not entered"):
            await use()
    with pytest.raises(ConfigurationError, match="not entered"):
        await anext(aiter(process))
    async with process:
        assert len(driver.sandboxes[-1].commands) == 1
        with pytest.raises(ConfigurationError, match="entered once"):
            await process.__aenter__()
    with pytest.raises(ConfigurationError, match="entered once"):
        await process.__aenter__()
    await sandbox.kill()


async def test_wait_discards_the_rest_and_may_be_repeated(
    backend: DriverBackend, driver: Any
) -> None:
    sandbox = await backend.create()
    process = driver.sandboxes[-1].process
    process.chunks = [OutputChunk("stdout", b"1")] * 3
    async with sandbox.stream(["x"]) as stream:
        assert stream.returncode is None
        assert (await anext(aiter(stream))).data == b"1"
        first = await stream.wait()
        second = await stream.wait()
        assert [chunk async for chunk in stream] == []
    assert stream.returncode == 0
    again = await stream.wait()
    for result in (first, second, again):
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
        assert result.streamed
    await sandbox.kill()


async def test_stdin_ends_when_output_is_first_awaited(backend: DriverBackend, driver: Any) -> None:
    sandbox = await backend.create()
    process = driver.sandboxes[-1].process
    async with sandbox.stream(["x"]) as stream:
        assert process.calls == []
        await stream.wait()
    assert process.calls[0] == "send_eof"
    process.calls.clear()
    async with sandbox.stream(["x"]) as stream:
        await stream.send("first")
        await stream.wait()
        assert "send_eof" not in process.calls
    process.calls.clear()
    async with sandbox.stream(["x"], stdin=PIPE) as stream:
        await stream.wait()
        assert "send_eof" not in process.calls
        await stream.send_eof()
        await stream.send_eof()
        with pytest.raises(ConfigurationError, match="stdin is closed"):
            await stream.send(b"x")
    assert process.calls.count("send_eof") == 1
    async with sandbox.stream(["x"], stdin=b"data") as stream:
        with pytest.raises(ConfigurationError, match="stdin is closed"):
            await stream.send(b"x")
    await sandbox.kill()


@pytest.mark.parametrize("signum", [0, 65, -1, True, "15", 1.0, None])
async def test_number_that_is_no_signal_is_refused(
    backend: DriverBackend, driver: Any, signum: Any
) -> None:
    sandbox = await backend.create()
    async with sandbox.stream(["x"]) as stream:
        with pytest.raises(ConfigurationError, match="signal"):
            await stream.signal(signum)
    assert "signal" not in driver.sandboxes[-1].process.calls
    await sandbox.kill()


@pytest.mark.parametrize("way", ["break", "exception", "cancellation", "to the end"])
async def test_leaving_a_stream_ends_the_command_unless_it_has_ended(
    backend: DriverBackend, driver: Any, hang: Act, way: str
) -> None:
    sandbox = await backend.create()
    process = driver.sandboxes[-1].process
    process.chunks = [OutputChunk("stdout", b"1")]
    if way != "to the end":
        process.acts["receive"] = hang

    async def use() -> None:
        async with sandbox.stream(["x"]) as stream:
            async for _ in stream:
                if way == "break":
                    break
                if way == "exception":
                    raise ZeroDivisionError
                if way == "cancellation":
                    await anyio.sleep_forever()

    if way == "exception":
        with pytest.raises(ZeroDivisionError):
            await use()
    else:
        with anyio.move_on_after(0.1 if way == "cancellation" else 30) as scope:
            await use()
        assert scope.cancelled_caught is (way == "cancellation")
    assert process.calls.count("kill") == (way != "to the end")
    await sandbox.kill()


async def test_timeout_of_a_stream_comes_from_iteration_and_from_wait(
    backend: DriverBackend, driver: Any, hang: Act
) -> None:
    sandbox = await backend.create()
    driver.sandboxes[-1].process.acts["receive"] = hang
    async with sandbox.stream(["x"], timeout=1.0) as stream:
        with pytest.raises(ExecutionTimeout) as first:
            [chunk async for chunk in stream]
        with pytest.raises(ExecutionTimeout) as second:
            await stream.wait()
    assert first.value is second.value
    await sandbox.kill()
