"""What an adapter has to load does not count against the bound of a health check."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from sandboxio._engine import backend as engine
from sandboxio.errors import ConnectError
from sandboxio.models import Health
from sandboxio.routing import Router, RouteRequest, RouterTuning
from sandboxio.spi import DriverBackend

SHORT = 0.5
"""Seconds that a health check may take here; what is loaded takes longer, once."""


@pytest.fixture
def loads(driver: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has `driver` load something slowly; what happened, in order."""
    happened: list[str] = []

    async def load() -> None:
        if not happened:
            await anyio.sleep(2 * SHORT)
            happened.append("loaded")

    async def health() -> Health:
        happened.append("asked")
        return Health(ok=True, detail="well")

    driver.load, driver.health = load, health
    monkeypatch.setattr(engine, "HEALTH_BOUND", SHORT)
    return happened


async def test_health_is_asked_when_all_is_loaded(backend: DriverBackend, loads: list[str]) -> None:
    assert (await backend.health()).ok
    assert loads == ["loaded", "asked"]


async def test_router_lets_it_load_before_its_own_bound_begins(
    backend: DriverBackend, loads: list[str]
) -> None:
    import sandboxio

    sandboxio.register("loading", lambda: backend)
    router = Router.from_dict(
        {
            "backends": {"only": {"adapter": "loading"}},
            "isolation_classes": {"standard": {"backend": "only"}},
            "default_class": "standard",
        },
        tuning=RouterTuning(health_bound=SHORT),
    )
    decision = await router.examine(RouteRequest())
    assert decision.taken == "only", str(decision)
    assert loads[0] == "loaded"


async def test_what_cannot_be_loaded_is_an_error_of_ours(
    backend: DriverBackend, driver: Any
) -> None:
    async def load() -> None:
        raise ImportError("no module named sdk")

    driver.load = load
    with pytest.raises(ConnectError, match="no module named sdk"):
        await backend.health()
