"""What holds for every test of the workspace: both event loops, and no service by accident."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Generator
from functools import cache
from typing import Any

import anyio
import pytest

import dockerd


class FailuresAtOnce:
    """Names a test when it fails, for a run that does not come to its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write one line."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:  # there is none in a process of pytest-xdist's
            terminal.write_line(f"\nFAILED in {report.when}: {report.nodeid}")


def pytest_configure(config: pytest.Config) -> None:
    """Name failures at once, and set up what programs inherit that the tests start."""
    config.pluginmanager.register(FailuresAtOnce(config))
    # Runs of pytest that tests start do not load this one either, which takes a second.
    os.environ.setdefault("PYTEST_ADDOPTS", "-p no:langsmith_plugin")
    # What a shell runs in the background ignores SIGINT, and so do the programs that it starts: these
    # can be interrupted, whoever started the tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(
    scope="module",
    params=[("asyncio", {"debug": True}), ("trio", {})],
    ids=["asyncio", "trio"],
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Run what is a coroutine on asyncio, with its debug mode, and on trio."""
    return request.param


@cache
def _missing(service: str) -> str | None:
    """Why tests with the marker `service` cannot run here; `None` when they can."""
    if service == "docker":
        return dockerd.missing()
    if service == "e2b" and not os.environ.get("E2B_API_KEY"):
        return "e2b: E2B_API_KEY is not set"
    if service == "local E2B":
        return _without_local_e2b()
    return None


USES_LOCAL_E2B = frozenset(("local_e2b", "local_e2b_server", "e2b_double"))
"""Fixtures that start a local E2B, which runs everything in local sandboxes."""


def _without_local_e2b() -> str | None:
    """Why no local E2B can be started here; `None` when one can."""
    if importlib.util.find_spec("sandboxio_local") is None:
        return "local E2B: sandboxio-local is not installed"
    from sandboxio_local import LocalBackend

    detail = ""
    for _ in range(3):  # a busy machine may take longer than the bound of one question
        health = anyio.run(LocalBackend().health)
        if health.ok:
            return None
        detail = health.detail
    return f"local E2B: no local sandbox can be made: {detail}"


NEEDS_FRAMEWORKS = "setup --frameworks"
"""What the reason holds when a module of tests skips itself because its framework is missing."""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail, by name, modules that miss a framework where all of them were promised."""
    report = yield
    promised = os.environ.get("SBX_REQUIRE_FRAMEWORKS") == "1"
    if promised and report.skipped and NEEDS_FRAMEWORKS in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"{report.longrepr}, and SBX_REQUIRE_FRAMEWORKS is 1"
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Give one process all tests of a file, which share fixtures, and all files that need Docker.

    There is one engine, and some of these tests look at all that it has.
    """
    from xdist.scheduler import LoadFileScheduling

    @cache
    def needs_docker(path: str) -> bool:
        return "mark.docker" in (config.rootpath / path).read_text(encoding="utf-8")

    class DockerTogether(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = super()._split_scope(nodeid)
            return "docker" if needs_docker(path) else path

    return DockerTogether(config, log)


BROKEN_PROMISE = pytest.StashKey[str]()
"""Why a test cannot run although its service was promised."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, by name, each test whose service is not at hand.

    By a mark and not by a fixture: fixtures of a module or a class would be made before that one.
    """
    for item in items:
        if USES_LOCAL_E2B.intersection(getattr(item, "fixturenames", ())) and (
            reason := _missing("local E2B")
        ):
            item.add_marker(pytest.mark.skip(reason=reason))
        for service in ("docker", "e2b"):
            if not item.get_closest_marker(service) or not (reason := _missing(service)):
                continue
            if service == "docker" and dockerd.promised():
                item.stash[BROKEN_PROMISE] = f"{reason}, and {dockerd.REQUIRE} is 1"
            else:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail, by name and before its fixtures are made, a test whose service was promised."""
    if reason := item.stash.get(BROKEN_PROMISE, None):
        pytest.fail(reason, pytrace=False)
