"""What the suite does in a run of pytest: gaps, refusals, the report, and failures that explain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["pytester"]

pytestmark = pytest.mark.slow

HEAD = """
from sandboxio.models import Capability
from sandboxio_testing import FakeBackend
from sandboxio_testing.suite import BackendContract, ProviderFacts, Unanswerable

fake = FakeBackend()


class Witness:
    def sandboxes(self):
        return fake.live_sandboxes

    def processes(self, sandbox_id, marker):
        raise Unanswerable("it does not look")

    def facts(self, sandbox_id):
        return ProviderFacts()

    def destroy(self, sandbox_id):
        if sandbox_id in fake.live_sandboxes:
            fake.expire(sandbox_id)


class Lying:
    \"\"\"A backend whose sandboxes say 0 whatever happens.\"\"\"

    def __getattr__(self, name):
        return getattr(fake, name)

    async def create(self, **options):
        sandbox = await fake.create(**options)
        run = sandbox.run

        async def lie(*args, **options):
            import dataclasses
            return dataclasses.replace(await run(*args, **options), exit_code=0)

        sandbox.run = lie
        return sandbox
"""

CLAUSES = "exec.exit-code,exec.last-line,code.context,code.no-results"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a test module below the common head, run it, and return the result and the report."""
    monkeypatch.setenv("COLUMNS", "300")  # pytest shortens its summary to the terminal
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n")

    def run_it(body: str, *options: str, clauses: str = CLAUSES) -> tuple[Any, dict[str, Any]]:
        pytester.makepyfile(HEAD + body)
        report = Path(pytester.path) / "report.json"
        result = pytester.runpytest_subprocess(
            f"--sandboxio-report={report}", f"--sandboxio-clauses={clauses}", "-ra", *options
        )
        return result, json.loads(report.read_text()) if report.exists() else {}

    return run_it


def clause(report: dict[str, Any], ident: str) -> dict[str, Any]:
    """Return what a report says of a clause of its only backend."""
    (backend,) = report["backends"]
    found: dict[str, Any] = backend["clauses"][ident]
    return found


def test_class_of_a_few_lines_runs_on_both_event_loops_in_a_foreign_project(run: Any) -> None:
    result, report = run(
        """
class TestMine(BackendContract):
    backend = fake
    witness = Witness
"""
    )
    assert result.ret == 0
    tests = clause(report, "exec.last-line")["tests"]
    assert tests == {
        f"test_last_line_needs_no_newline[{loop}]": "passed" for loop in ("asyncio", "trio")
    }
    result.stdout.fnmatch_lines(["contract of fake: 3 passed, 1 skipped, * not run"])


def test_report_is_whole_when_pytest_xdist_spreads_the_tests_over_processes(run: Any) -> None:
    body = """
class TestMine(BackendContract):
    backend = Lying
    witness = Witness
"""
    alone, expected = run(body)
    spread, report = run(body, "-n", "2")
    assert (spread.ret, alone.ret) == (1, 1)
    assert report == expected
    assert clause(report, "exec.exit-code")["outcome"] == "failed"
    spread.stdout.fnmatch_lines(["contract of fake: * passed, 1 failed, *"])


def test_failure_names_its_clause_what_was_seen_and_what_to_look_at(run: Any) -> None:
    result, report = run(
        """
class TestMine(BackendContract):
    backend = Lying
    witness = Witness
"""
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "E   *assert 0 == 3*",
            "MUST exec.exit-code: The exit code is the command's own, from 0 to 255.",
            "If this fails, look for a shell or a wrapper whose own exit code is reported.",
            "https://*/reference/contract/#exec",
            "FAILED *exit_code_is_the_commands_own* - ?exec.exit-code?*",
        ]
    )
    assert clause(report, "exec.exit-code")["outcome"] == "failed"
    assert clause(report, "exec.last-line")["outcome"] == "passed"
    assert report["backends"][0]["conforms"] is False


def test_known_gap_is_a_strict_xfail_with_its_link(run: Any) -> None:
    result, report = run(
        """
class TestMine(BackendContract):
    backend = Lying
    witness = Witness
    known_gaps = {
        "exec.exit-code::test_exit_code_is_the_commands_own[asyncio-1]": "https://example.org/1",
        "exec.exit-code::test_exit_code_is_the_commands_own[asyncio-3]": "https://example.org/1",
        "exec.exit-code::test_exit_code_is_the_commands_own[asyncio-255]": "https://example.org/1",
        "exec.exit-code::test_exit_code_is_the_commands_own[trio-1]": "https://example.org/1",
        "exec.exit-code::test_exit_code_is_the_commands_own[trio-3]": "https://example.org/1",
        "exec.exit-code::test_exit_code_is_the_commands_own[trio-255]": "https://example.org/1",
    }
""",
        clauses="exec.exit-code",
    )
    assert result.ret == 0
    result.assert_outcomes(passed=2, xfailed=6)
    found = clause(report, "exec.exit-code")
    assert found["outcome"] == "known gap"
    assert found["reasons"] == ["known gap: https://example.org/1"]
    assert report["backends"][0]["conforms"] is False


def test_gap_that_was_closed_fails(run: Any) -> None:
    result, _ = run(
        """
class TestMine(BackendContract):
    backend = fake
    witness = Witness
    known_gaps = {"exec.last-line": "https://example.org/2"}
""",
        clauses="exec.last-line",
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*XPASS(strict)*https://example.org/2*"])


@pytest.mark.parametrize(
    ("gaps", "why"),
    [
        ('{"exec.no-such": "https://example.org/3"}', "there is no clause"),
        ('{"exec.last-line": "later"}', "must be the address of an issue"),
    ],
)
def test_gap_must_name_a_clause_and_a_link(run: Any, gaps: str, why: str) -> None:
    result, _ = run(
        f"""
class TestMine(BackendContract):
    backend = fake
    witness = Witness
    known_gaps = {gaps}
"""
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{why}*"])


@pytest.mark.parametrize(
    "change",
    [
        "    async def test_last_line_needs_no_newline(self): pass",
        "    test_last_line_needs_no_newline = None",
    ],
)
def test_standard_test_cannot_be_overridden(run: Any, change: str) -> None:
    result, _ = run(
        f"""
class TestMine(BackendContract):
    backend = fake
    witness = Witness
{change}
"""
    )
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*TypeError: TestMine overrides standard tests*known_gaps*"])


def test_standard_test_cannot_be_deleted_later(run: Any) -> None:
    result, _ = run(
        """
class TestMine(BackendContract):
    backend = fake
    witness = Witness

TestMine.test_last_line_needs_no_newline = None
"""
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*overrides or deletes standard tests*"])


def test_class_without_a_witness_fails_instead_of_skipping(run: Any) -> None:
    result, report = run(
        """
class TestMine(BackendContract):
    backend = fake
""",
        clauses="exec.last-line",
    )
    assert result.ret == 1
    assert clause(report, "exec.last-line")["outcome"] == "failed"
    result.stdout.fnmatch_lines(["*TestMine has no `witness`*"])


def test_backend_that_declares_nothing_is_not_green(run: Any) -> None:
    result, report = run(
        """
class TestMine(BackendContract):
    backend = FakeBackend(capabilities=Capability(0))
    witness = Witness
""",
        clauses="exec.last-line,code.runs,capability.floor",
    )
    assert result.ret == 1
    assert clause(report, "capability.floor")["outcome"] == "failed"
    assert clause(report, "exec.last-line")["outcome"] == "failed"
    assert clause(report, "code.runs")["outcome"] == "skipped"


def test_what_a_witness_cannot_tell_is_skipped_by_name(run: Any) -> None:
    result, report = run(
        """
class TestMine(BackendContract):
    backend = fake
    witness = Witness
""",
        clauses="isolation.not-privileged",
    )
    assert result.ret == 0
    found = clause(report, "isolation.not-privileged")
    assert found["outcome"] == "skipped"
    assert found["reasons"] == ["the witness does not tell privileges"]


def test_event_loop_that_is_not_supported_is_skipped_by_name(run: Any) -> None:
    result, report = run(
        """
class TestMine(BackendContract):
    backend = fake
    witness = Witness
    loops = ("asyncio",)
""",
        clauses="exec.last-line",
    )
    assert result.ret == 0
    tests = clause(report, "exec.last-line")["tests"]
    assert sorted(tests.values()) == ["passed", "skipped"]
    result.stdout.fnmatch_lines(["*does not support trio*"])


def test_property_clauses_are_not_blamed_for_what_another_thread_does(run: Any) -> None:
    """An adapter's SDK may use `random` in a thread of its own, while hypothesis looks at it."""
    result, _ = run(
        """
import random, sys, threading
import pytest
from sandboxio_testing.suite.properties import PropertyContract


@pytest.fixture(autouse=True)
def another_thread():
    over = threading.Event()

    def draw():
        while not over.is_set():
            random.random()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=draw)
    thread.start()
    yield
    over.set()
    thread.join()
    sys.setswitchinterval(interval)


class TestFake(PropertyContract):
    backend = lambda: fake
    witness = Witness
""",
        "-W",
        "error::hypothesis.errors.HypothesisWarning",
        clauses="stdin.given",
    )
    result.assert_outcomes(passed=2)
