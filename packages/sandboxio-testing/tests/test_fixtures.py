"""The fixtures of the plugin, in runs of pytest of their own, with either plugin for coroutines."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

BOUND = 120.0
"""Seconds for a run of pytest; it takes two or three on a busy machine."""

TESTS = """
import pytest
import sandboxio
from sandboxio import ExecResult
from sandboxio.testing import FakeBackend, offline

{mark}
async def test_fake(sbx_fake):
    sbx_fake.on_run_code(match="import pandas", returns=ExecResult(0, "2.2.1\\n", ""))
    assert (await sbx_fake.sandbox.run_code("import pandas")).stdout == "2.2.1\\n"

{mark}
async def test_time_is_virtual(sbx_fake):
    sandbox = await sbx_fake.create(timeout=7200)
    assert (await sandbox.run("sleep 3600")).ok

{mark}
@pytest.mark.parametrize("target", [None, "docker://image", "e2b://x", "local://", "auto://"])
async def test_offline(sbx_offline, target):
    async with await sandboxio.create(target) as sandbox:
        assert (await sandbox.run("echo hi")).stdout == "hi\\n"
    assert [call.op for call in sbx_offline.calls] == ["create", "run", "kill"]

def test_offline_sync(sbx_offline):
    with sandboxio.create_sync("docker://image") as sandbox:
        assert sandbox.run("sleep 60; echo hi").stdout == "hi\\n"

def test_sync_sandbox(sbx_fake):
    assert sbx_fake.sync_sandbox.run("echo hi").stdout == "hi\\n"
"""

WITH = {
    "anyio": ("@pytest.mark.anyio", "", ("-p", "no:asyncio")),
    "asyncio": (
        "",
        (
            "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = session\n"
            "asyncio_default_test_loop_scope = session"
        ),
        ("-p", "no:anyio"),
    ),
}


LOOPS = {"anyio": 2, "asyncio": 1}
"""How many event loops the plugin runs a coroutine on."""


def run(pytester: pytest.Pytester, plugin: str, source: str, *arguments: str) -> pytest.RunResult:
    """Run tests in a process of their own, with one of the two plugins."""
    mark, setting, options = WITH[plugin]
    pytester.makeini(f"[pytest]\n{setting}\naddopts = -W error --strict-markers\n")
    pytester.makepyfile(source.replace("{mark}", mark))
    return pytester.runpytest_subprocess(*options, *arguments, timeout=BOUND)


@pytest.mark.slow
@pytest.mark.parametrize("plugin", WITH)
def test_fixtures_work_with_either_plugin(pytester: pytest.Pytester, plugin: str) -> None:
    result = run(pytester, plugin, TESTS)
    coroutines, functions = 7, 2
    result.assert_outcomes(passed=functions + coroutines * LOOPS[plugin])


@pytest.mark.slow
@pytest.mark.parametrize("plugin", WITH)
def test_leaks_fail_the_test_that_made_them(pytester: pytest.Pytester, plugin: str) -> None:
    result = run(
        pytester,
        plugin,
        """
        import pytest
        import sandboxio
        from sandboxio.testing import FakeBackend

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        {mark}
        async def test_leaks(sbx_no_leaks, sbx_offline):
            await sandboxio.create("docker://image")

        {mark}
        async def test_leaks_of_a_fake(sbx_fake, sbx_no_leaks):
            await sbx_fake.create()

        {mark}
        async def test_leaks_through_the_registry(sbx_no_leaks):
            await sandboxio.create("fake://")

        {mark}
        async def test_is_clean(sbx_no_leaks, sbx_offline):
            async with await sandboxio.create("docker://image") as sandbox:
                await sandbox.run("true")
            sbx_offline.sandbox
            (await sandboxio.create("docker://image")).id
            for item in await sbx_offline.list_managed():
                await sbx_offline.kill_managed(item.sandbox_id)

        @pytest.mark.usefixtures("sbx_no_leaks")
        def test_is_clean_without_a_sandbox():
            pass

        def test_is_not_watched():
            sandboxio.create_sync("fake://").close()
        """,
    )
    result.assert_outcomes(passed=6, errors=3)
    result.stdout.fnmatch_lines(
        ["*teardown of test_leaks *", "*left 1 sandbox(es) behind: fake:fake-0001*"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("plugin", WITH)
def test_fixtures_of_every_scope_share_a_fake(pytester: pytest.Pytester, plugin: str) -> None:
    scopes = ("session", "package", "module", "class", "function")
    fixtures = "".join(
        f"""
        @{"pytest" if plugin == "anyio" else "pytest_asyncio"}.fixture(scope="{scope}")
        async def of_{scope}({"anyio_backend, " if plugin == "anyio" else ""}fake):
            async with await sandboxio.create("docker://{scope}") as sandbox:
                yield sandbox
        """
        for scope in scopes
    )
    names = ", ".join(f"of_{scope}" for scope in scopes)
    result = run(
        pytester,
        plugin,
        f"""
        import pytest
        {"" if plugin == "anyio" else "import pytest_asyncio"}
        import sandboxio
        from sandboxio.testing import offline

        {
            '''
        @pytest.fixture(scope="session")
        def anyio_backend():
            return "asyncio"
        '''
            if plugin == "anyio"
            else ""
        }
        @pytest.fixture(scope="session")
        def fake():
            with offline() as fake:
                yield fake
            assert fake.live_sandboxes == ()
            assert fake.open_sandboxes == frozenset()
        {fixtures}
        {{mark}}
        async def test_first({names}):
            for sandbox in ({names}):
                await sandbox.run("sleep 1; echo a >> f")

        {{mark}}
        async def test_second({names}):
            sizes = [len((await sandbox.run("cat f")).stdout) for sandbox in ({names})]
            assert sizes == [2, 2, 2, 0, 0]  # outside of a class, its scope is the function's
        """,
    )
    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_registry_is_as_it_was_after_an_offline_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "anyio",
        """
        import pytest
        import sandboxio
        from sandboxio.spi import default_registry
        from sandboxio.testing import FakeBackend, offline

        mine = FakeBackend()
        sandboxio.register("mine", lambda: mine)

        def names():
            registry = default_registry()
            return registry.names(), registry.is_registered("docker"), registry.opened()

        def test_inside(sbx_offline):
            assert default_registry().backend("mine") is sbx_offline
            other = FakeBackend()
            sandboxio.register("docker", lambda: other)
            assert default_registry().backend("docker") is other
            assert default_registry().backend("e2b") is sbx_offline

        def test_after():
            assert default_registry().backend("mine") is mine
            assert not default_registry().is_registered("docker")
            assert not default_registry().is_registered("auto")

        def test_raises(sbx_offline):
            raise RuntimeError

        def test_after_an_error():
            assert default_registry().backend("mine") is mine

        def test_nested():
            with offline() as outer:
                with offline(missing=["e2b"]) as inner:
                    assert default_registry().backend("docker") is inner
                    with pytest.raises(sandboxio.BackendNotInstalled):
                        default_registry().backend("e2b")
                assert default_registry().backend("e2b") is outer
            with pytest.raises(sandboxio.BackendNotFound):
                default_registry().backend("dokcer")
        """,
    )
    result.assert_outcomes(passed=4, failed=1)


@pytest.mark.slow
def test_plugin_loads_nothing_of_sandboxio_before_a_fixture_is_used(
    pytester: pytest.Pytester,
) -> None:
    result = run(
        pytester,
        "anyio",
        """
        import sys

        def test_nothing_is_loaded():
            assert "sandboxio_testing.plugin" in sys.modules
            loaded = [name for name in sys.modules if name.split(".")[0] == "sandboxio"]
            assert loaded == []
            assert "sandboxio_testing._backend" not in sys.modules

        def test_fixture_loads_it(sbx_fake):
            assert "sandboxio._engine.backend" in sys.modules
        """,
    )
    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_assertions_and_coverage_of_the_tests_are_not_harmed(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = -W error -p no:asyncio\n")
    pytester.makepyfile(
        tool="def used():\n    return 1\n\n\ndef unused():\n    return 2\n",
        test_tool="import tool\n\ndef test_shows_values(sbx_fake):\n    assert tool.used() == len('ab')\n",
    )
    ran = pytester.run(
        sys.executable, "-m", "coverage", "run", "--include=tool.py", "-m", "pytest", timeout=BOUND
    )
    ran.stdout.fnmatch_lines(["*assert 1 == 2*", "*where 1 = <function used*"])
    report = pytester.run(sys.executable, "-m", "coverage", "report", "-m", timeout=BOUND)
    report.stdout.fnmatch_lines(["tool.py*4*1*75%*6"])


def test_public_names_are_those_that_are_promised() -> None:
    code = (
        "import sandboxio_testing as t; assert t.__all__ == sorted(t.__all__); "
        "print(*[n for n in t.__all__ if getattr(t, n, None) is None]); print(set(t.__all__) - set(dir(t)))"
    )
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "\nset()\n"
