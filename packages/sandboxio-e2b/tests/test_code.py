"""Code in E2B's interpreter: contexts, results, values as data, and what can go wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest

from sandboxio import (
    CapabilityNotSupported,
    ExecutionTimeout,
    SandboxGone,
    SandboxUnreachable,
)
from sandboxio.protocols import AsyncSandbox
from sandboxio_e2b import E2BBackend
from sandboxio_testing.e2b import Fault, LocalE2B

EXECUTE = "POST /execute"
START = "POST /process.Process/Start"
BOUND = 110.0

AWKWARD = {
    "QUOTES": "it's \"quoted\" '''thrice'''",
    "LINES": "one\ntwo\r\nthree\u2028four",
    "CODE": "'; import os; os._exit(1) #",
    "BACKSLASH": "a\\",
    "EMPTY": "",
    "EMOJI": "\N{SNAKE}",
}


@pytest.fixture
async def sandbox(backend: E2BBackend) -> AsyncGenerator[AsyncSandbox, None]:
    async with await backend.create(timeout=600, env={"BASE": "base"}) as made:
        yield made


async def test_contexts_results_and_environment(sandbox: AsyncSandbox) -> None:
    with anyio.fail_after(BOUND):
        script = "import os, json\nprint(json.dumps(dict(os.environ)))"
        done = await sandbox.run_code(script, context_id="a b/ü'\n", env=AWKWARD)
        import json

        seen = json.loads(done.stdout)
        assert {key: seen[key] for key in AWKWARD} == AWKWARD
        assert seen["BASE"] == "base"
        # A variable of a call is gone after it, and one that it replaced is back.
        script = "print([k for k in os.environ if k in %r], os.environ['PATH'][:1])" % [*AWKWARD]
        await sandbox.run_code("1", context_id="a b/ü'\n", env={"PATH": "x"})
        assert (await sandbox.run_code(script, context_id="a b/ü'\n")).stdout == "[] /\n"
        html = "from IPython.display import HTML\nHTML('<b>x</b>')"
        done = await sandbox.run_code(html, context_id="a b/ü'\n")
        kinds = {item.mime_type: item.data for item in done.results or ()}
        assert kinds["text/html"] == "<b>x</b>"
        assert set(kinds) == {"text/html", "text/plain"}
        done = await sandbox.run_code("def f():\n    1/0\nf()", context_id="a b/ü'\n")
        assert done.exit_code == 1
        assert "ZeroDivisionError" in done.stderr
        assert "line 2" in done.stderr
        assert "\x1b" not in done.stderr
        assert (
            await sandbox.run_code("import sys; sys.exit(3)", context_id="a b/ü'\n")
        ).exit_code == 3


async def test_timeout_ends_only_its_context(sandbox: AsyncSandbox) -> None:
    with anyio.fail_after(BOUND):
        await sandbox.run_code("x = 1", context_id="stays")
        await sandbox.run_code("x = 1", context_id="goes")
        with pytest.raises(ExecutionTimeout):
            await sandbox.run_code("while True: pass", context_id="goes", timeout=0.5)
        # At once: here the service loses code, and never answers.
        assert (await sandbox.run_code("print(1)", context_id="goes")).stdout == "1\n"
        assert (await sandbox.run_code("print(x)", context_id="goes")).exit_code == 1
        assert (await sandbox.run_code("print(x)", context_id="stays")).stdout == "1\n"


STARTS = """
import os, subprocess, time
subprocess.Popen(["setsid", "sleep", {number!r}])
subprocess.Popen(["sh", "-c", "sleep " + {number!r} + "; true"], env={{"PATH": os.environ["PATH"]}})
if os.fork() == 0:
    os.execve("/bin/sleep", ["sleep", {number!r}], {{}})
"""


async def test_timeout_ends_what_the_code_has_started(sandbox: AsyncSandbox) -> None:
    """In whichever way it was started; what another context started lives on."""
    with anyio.fail_after(BOUND):
        await sandbox.run_code(STARTS.format(number="4721"), context_id="stays")
        code = STARTS.format(number="4722") + "time.sleep(300)"
        with pytest.raises(ExecutionTimeout):
            await sandbox.run_code(code, context_id="goes", timeout=3)
        listed = (await sandbox.run("ps ax")).stdout
        assert listed.count("sleep 4721") >= 3
        assert "sleep 4722" not in listed


@pytest.mark.parametrize("route", ["DELETE /contexts/*", START])
async def test_interpreter_that_cannot_be_ended_ends_the_sandbox(
    backend: E2BBackend, server: LocalE2B, route: str
) -> None:
    async with await backend.create(timeout=600) as sandbox:
        with anyio.fail_after(BOUND):
            await sandbox.run_code("x = 1", context_id="a")
            server.add(Fault(route=route, status=500, times=99))
            with pytest.raises(ExecutionTimeout):
                await sandbox.run_code("while True: pass", context_id="a", timeout=0.5)
            assert not server.sandboxes
            with pytest.raises(SandboxGone):
                await sandbox.run_code("x", context_id="a")


async def test_cut_answer_is_no_success(sandbox: AsyncSandbox, server: LocalE2B) -> None:
    with anyio.fail_after(BOUND):
        await sandbox.run_code("x = 1", context_id="a")
        server.add(Fault(route=EXECUTE, end_early=True, cut_after=150))
        with pytest.raises(SandboxUnreachable):
            await sandbox.run_code("print('much')\nprint('more')", context_id="a")
        server.add(Fault(route=EXECUTE, drop="body", cut_after=150, skip=1))
        with pytest.raises(SandboxUnreachable):
            await sandbox.run_code("print('much')\nprint('more')", context_id="a")
        assert (await sandbox.run_code("print(2)", context_id="a")).stdout == "2\n"


async def test_what_cannot_be_handed_over_as_data_is_refused(sandbox: AsyncSandbox) -> None:
    with anyio.fail_after(BOUND):
        with pytest.raises(CapabilityNotSupported):
            await sandbox.run_code("1", language="javascript", context_id="a")
        with pytest.raises(CapabilityNotSupported):
            await sandbox.run_code("1", language="cobol", context_id="a")
