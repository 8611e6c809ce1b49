"""What holds for every test of the workspace: both event loops, and no service by accident."""

from __future__ import annotations

import os
from collections.abc import Generator
from functools import cache

import pytest

import dockerd


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
    return None


E2B_DOUBLE = (
    "packages/sandboxio-e2b/tests",
    "packages/sandboxio-testing/tests/e2b",
    "tests-contract/test_e2b",
    "tests-contract/test_swap_backends",
)
"""Tests that run on the local E2B. They take long, and are not held by CI before they are steady."""


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


BROKEN_PROMISE = pytest.StashKey[str]()
"""Why a test cannot run although its service was promised."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, by name, each test whose service is not at hand.

    By a mark and not by a fixture: fixtures of a module or a class would be made before that one.
    """
    for item in items:
        if item.nodeid.startswith(E2B_DOUBLE) and not os.environ.get("SBX_TEST_E2B_DOUBLE"):
            item.add_marker(pytest.mark.skip(reason="local E2B: SBX_TEST_E2B_DOUBLE is not set"))
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
