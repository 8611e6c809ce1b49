"""The local E2B as E2B's own unmodified SDK sees it."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest
from e2b import (
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    RateLimitException,
    SandboxException,
    SandboxNotRunningException,
    TimeoutException,
)
from e2b_code_interpreter import AsyncSandbox

from sandboxio_testing.e2b import Fault, LocalE2B

# The SDK calls asyncio itself, so these run on a loop of their own.
Body = Callable[[AsyncSandbox], Coroutine[Any, Any, None]]

BOUND = 100.0


@pytest.fixture(autouse=True)
def server(local_e2b: LocalE2B) -> Generator[LocalE2B, None, None]:
    before = len(local_e2b.errors)
    yield local_e2b
    local_e2b.end_all()
    assert len(local_e2b.errors) == before, local_e2b.errors[before:]


def in_sandbox(body: Body, **options: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(BOUND):
            sandbox = await AsyncSandbox.create(allow_internet_access=False, **options)
            await body(sandbox)

    asyncio.run(main())


def test_commands_end_as_they_do_at_the_service() -> None:
    async def body(sandbox: AsyncSandbox) -> None:
        done = await sandbox.commands.run("echo hi; echo err >&2; pwd; echo $A", envs={"A": "it's"})
        assert (done.stdout, done.stderr) == ("hi\n/home/user\nit's\n", "err\n")
        with pytest.raises(CommandExitException) as failed:
            await sandbox.commands.run("exit 3")
        assert (failed.value.exit_code, failed.value.error) == (3, "exit status 3")
        with pytest.raises(CommandExitException) as killed:
            await sandbox.commands.run("kill -9 $$")
        assert (killed.value.exit_code, killed.value.error) == (-1, "signal: killed")
        with pytest.raises(InvalidArgumentException):
            await sandbox.commands.run("true", cwd="/nonexistent")
        with pytest.raises(AuthenticationException):
            await sandbox.commands.run("true", user="root")

    in_sandbox(body)


def test_deadline_reaches_one_process_and_not_its_children() -> None:
    async def body(sandbox: AsyncSandbox) -> None:
        with pytest.raises(TimeoutException):
            await sandbox.commands.run("sleep 4715 & sleep 4716; true", timeout=1)
        assert "sleep 4715" in (await sandbox.commands.run("ps ax")).stdout

    in_sandbox(body)


def test_disconnecting_leaves_a_command_running_and_connecting_finds_it() -> None:
    async def body(sandbox: AsyncSandbox) -> None:
        handle = await sandbox.commands.run("cat", background=True, stdin=True, timeout=0)
        await handle.disconnect()
        assert [item.pid for item in await sandbox.commands.list()] == [handle.pid]
        again = await sandbox.commands.connect(handle.pid, timeout=0)
        await sandbox.commands.send_stdin(handle.pid, b"late\n")
        await sandbox.commands.close_stdin(handle.pid)
        assert (await again.wait()).stdout == "late\n"
        assert not await sandbox.commands.kill(999_999)

    in_sandbox(body)


def test_ordered_input_and_much_output() -> None:
    async def body(sandbox: AsyncSandbox) -> None:
        handle = await sandbox.commands.run("cat", background=True, stdin=True, timeout=0)
        async with sandbox.commands.stream_input(handle.pid) as stdin:
            for number in range(100):
                await stdin.send(f"{number}\n")
        await handle.close_stdin()
        assert (await handle.wait()).stdout == "".join(f"{n}\n" for n in range(100))
        done = await sandbox.commands.run("yes | head -c 5000000")
        assert len(done.stdout) == 5_000_000

    in_sandbox(body)


def test_terminal() -> None:
    async def body(sandbox: AsyncSandbox) -> None:
        from e2b import PtySize

        seen = bytearray()
        handle = await sandbox.pty.create(PtySize(cols=90, rows=30), seen.extend, timeout=0)
        await sandbox.pty.send_stdin(handle.pid, b"stty size; exit\n")
        await handle.wait()
        assert b"30 90" in seen

    in_sandbox(body)


def test_files() -> None:
    async def body(sandbox: AsyncSandbox) -> None:
        data = bytes(range(256)) * 4096
        await sandbox.files.write('odd "name"\n.bin', data)
        assert bytes(await sandbox.files.read('odd "name"\n.bin', format="bytes")) == data
        assert await sandbox.files.make_dir("a/b")
        assert not await sandbox.files.make_dir("a/b")
        await sandbox.files.rename("a/b", "a/c")
        assert [item.name for item in await sandbox.files.list("a")] == ["c"]
        assert not await sandbox.files.exists("a/b")
        await sandbox.files.remove("a")
        url = sandbox.download_url('odd "name"\n.bin')
        got = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=30).read())
        assert got == data
        with pytest.raises(urllib.error.HTTPError) as refused:
            await asyncio.to_thread(urllib.request.urlopen, url.replace("v1_", "v1_x"), None, 30)
        assert refused.value.code == 401
        refused.value.close()

    in_sandbox(body)


async def error_of(sandbox: AsyncSandbox, code: str, **options: Any) -> str:
    error = (await sandbox.run_code(code, **options)).error
    assert error is not None
    return error.name


# Uncaught, an interrupt makes the kernel drop what is asked of it before it is done with that: the
# service's own race, which the double has too.
ENDLESS = """
y = 5
try:
    print("begun", flush=True)
    while True:
        pass
except KeyboardInterrupt:
    y += 1
"""


def test_code_contexts_results_restart_and_interrupt() -> None:
    async def body(sandbox: AsyncSandbox) -> None:
        done = await sandbox.run_code("print(1)\nx = 20\nx + 1")
        assert done.logs.stdout == ["1\n"]
        assert done.text == "21"
        html = await sandbox.run_code("from IPython.display import HTML\nHTML('<b>x</b>')")
        assert html.results[0].html == "<b>x</b>"
        assert html.results[0].text == "<IPython.core.display.HTML object>"
        assert await error_of(sandbox, "1/0") == "ZeroDivisionError"
        context = await sandbox.create_code_context(cwd="/tmp")
        assert await error_of(sandbox, "x", context=context) == "NameError"
        listed = {item.id for item in await sandbox.list_code_contexts()}
        assert context.id in listed
        assert len(listed) == 2
        # A client that goes away interrupts what it was running, and the state stays.
        begun = asyncio.Event()
        endless = asyncio.create_task(
            sandbox.run_code(ENDLESS, context=context, on_stdout=lambda _: begun.set())
        )
        await begun.wait()
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        assert (await sandbox.run_code("y", context=context)).text == "6"
        await sandbox.restart_code_context(context)
        assert await error_of(sandbox, "y", context=context) == "NameError"
        await sandbox.remove_code_context(context)

    in_sandbox(body, timeout=300)


def test_values_are_pasted_into_the_source_as_the_service_does_it() -> None:
    async def body(sandbox: AsyncSandbox) -> None:
        code = "import os\nprint(os.environ['Q'])"
        assert (await sandbox.run_code(code, envs={"Q": "plain"})).logs.stdout == ["plain\n"]
        assert await error_of(sandbox, code, envs={"Q": "it's"}) == "SyntaxError"

    in_sandbox(body, timeout=300)


def test_sandbox_expires_and_every_path_says_so() -> None:
    async def body(sandbox: AsyncSandbox) -> None:
        running = await sandbox.commands.run("sleep 60", background=True, timeout=0)
        await sandbox.set_timeout(1)
        with pytest.raises(SandboxNotRunningException):
            await running.wait()
        assert not await sandbox.is_running()
        for call in (
            sandbox.commands.run("true"),
            sandbox.files.list("."),
            sandbox.commands.list(),
        ):
            with pytest.raises(SandboxNotRunningException):
                await call
        assert not await sandbox.kill()

    in_sandbox(body, timeout=60)


def test_same_key_makes_one_sandbox(server: LocalE2B) -> None:
    async def main() -> None:
        made = await asyncio.gather(
            *(AsyncSandbox.create(timeout=60, idempotency_key="same-key") for _ in range(3))
        )
        assert len({sandbox.sandbox_id for sandbox in made}) == 1

    asyncio.run(main())
    assert len(server.sandboxes) == 1


def test_connect_extends_and_never_shortens(server: LocalE2B) -> None:
    async def body(sandbox: AsyncSandbox) -> None:
        before = server.ends_at(sandbox.sandbox_id)
        await AsyncSandbox.connect(sandbox.sandbox_id, timeout=1)
        assert server.ends_at(sandbox.sandbox_id) == before
        await AsyncSandbox.connect(sandbox.sandbox_id, timeout=500)
        assert server.ends_at(sandbox.sandbox_id) > before

    in_sandbox(body, timeout=60)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "greater than 0"),
        ({"timeout": 25 * 3600}, "24 hours"),
        ({"network": {"allow_out": ["a.example.com"]}}, "0.0.0.0/0"),
        ({"network": {"allow_out": ["1.1.1.1"], "deny_out": ["0.0.0.0/0"]}}, "list of hosts"),
        ({"lifecycle": {"on_timeout": "pause"}}, "autoPause"),
    ],
)
def test_what_cannot_be_served_is_refused(options: dict[str, Any], words: str) -> None:
    async def main() -> None:
        with pytest.raises(SandboxException, match=words):
            await AsyncSandbox.create(**options)

    asyncio.run(main())


def test_keys_and_tokens_are_enforced(server: LocalE2B) -> None:
    def status(path: str, headers: dict[str, str]) -> int:
        request = urllib.request.Request(server.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            with error:
                body = json.loads(error.read())
                assert set(body) >= {"code", "message"}
                return error.code

    async def body(sandbox: AsyncSandbox) -> None:
        ids = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983"}
        assert status("/v2/sandboxes", {}) == 401
        assert status("/v2/sandboxes", {"X-API-KEY": "other"}) == 401
        assert status("/envs", ids) == 401
        assert status("/files?path=x", {**ids, "X-Access-Token": "other"}) == 401
        assert status("/health", {**ids, "E2b-Sandbox-Id": "i0"}) == 502
        assert status("/health", {**ids, "E2b-Sandbox-Port": "1"}) == 502

    in_sandbox(body, timeout=60)


def test_faults_happen_where_and_as_often_as_they_were_asked_for(server: LocalE2B) -> None:
    async def main() -> None:
        server.add(Fault(route="GET /v2/sandboxes", status=429, headers={"Retry-After": "1"}))
        server.add(Fault(route="GET /v2/sandboxes", delay=0.3, skip=1))
        with pytest.raises(RateLimitException):
            await AsyncSandbox.list(retries=0).next_items()
        assert await AsyncSandbox.list(retries=0).next_items() == []
        began = time.monotonic()
        assert await AsyncSandbox.list(retries=0).next_items() == []
        assert time.monotonic() - began >= 0.3

    asyncio.run(main())
