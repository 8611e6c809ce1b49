"""What holds for every test of the workspace: both event loops, and no service by accident."""

from __future__ import annotations

import os
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
    if service == "docker" and not dockerd.answers():
        return "docker: no Docker daemon answers on this machine"
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, by name, each test whose service is not at hand.

    By a mark and not by a fixture: fixtures of a module or a class would be made before that one.
    """
    for item in items:
        if item.nodeid.startswith(E2B_DOUBLE) and not os.environ.get("SBX_TEST_E2B_DOUBLE"):
            item.add_marker(pytest.mark.skip(reason="local E2B: SBX_TEST_E2B_DOUBLE is not set"))
        for service in ("docker", "e2b"):
            if item.get_closest_marker(service) and (reason := _missing(service)):
                item.add_marker(pytest.mark.skip(reason=reason))
