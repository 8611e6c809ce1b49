"""What holds for every test of the workspace: both event loops, and no service by accident."""

from __future__ import annotations

import os

import pytest

import dockerd


@pytest.fixture(
    scope="module",
    params=[("asyncio", {"debug": True}), ("trio", {})],
    ids=["asyncio", "trio"],
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Run what is marked `anyio` on asyncio, with its debug mode, and on trio."""
    return request.param


@pytest.fixture(scope="session")
def docker_answers() -> bool:
    """Whether a Docker daemon answers here."""
    return dockerd.answers()


@pytest.fixture(autouse=True)
def _only_what_is_at_hand(request: pytest.FixtureRequest) -> None:
    """Skip, by name, a test whose service is not at hand."""
    if request.node.get_closest_marker("docker") and not request.getfixturevalue("docker_answers"):
        pytest.skip("docker: no Docker daemon answers on this machine")
    if request.node.get_closest_marker("e2b") and not os.environ.get("E2B_API_KEY"):
        pytest.skip("e2b: E2B_API_KEY is not set")
