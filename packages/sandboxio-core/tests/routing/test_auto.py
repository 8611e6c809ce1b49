"""``auto://``: Docker if its daemon answers, else local; one router for the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sandboxio
from sandboxio._api.routed import default_router
from sandboxio._wiring.registry import default_registry
from sandboxio.errors import ConfigurationError, NoRoute
from sandboxio.models import Health
from sandboxio.spi import DriverBackend


@pytest.fixture
def pair(driver: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """Stage drivers under the names that ``auto://`` knows, for one test."""
    drivers = driver("docker"), driver("local")
    registry = default_registry()
    for made in drivers:
        backend = DriverBackend(made)
        monkeypatch.setitem(registry._registered, made.name, lambda backend=backend: backend)
        monkeypatch.setitem(registry._backends, made.name, backend)
    default_router.cache_clear()
    yield drivers
    default_router.cache_clear()


async def test_docker_is_taken_if_it_answers(pair: tuple[Any, Any]) -> None:
    sandbox: Any = await sandboxio.create("auto://")
    assert sandbox.route.taken == "docker"
    assert pair[1].requests == []


async def test_local_is_taken_if_it_does_not(pair: tuple[Any, Any]) -> None:
    pair[0].says = Health(False, "no daemon", "start it")
    sandbox: Any = await sandboxio.create("auto://", metadata={"tenant_id": "t"})
    assert sandbox.route.taken == "local"
    assert pair[1].requests[0].metadata == {"tenant_id": "t"}


async def test_none_of_them_is_a_no_route_that_says_why(pair: tuple[Any, Any]) -> None:
    for made in pair:
        made.says = Health(False, f"no {made.name}")
    with pytest.raises(NoRoute, match=r"unhealthy: no docker \| local: unhealthy: no local"):
        await sandboxio.create("auto://")


async def test_template_and_timeout_ride_along_and_are_given_once(pair: tuple[Any, Any]) -> None:
    await sandboxio.create("auto://image:1?timeout=42")
    request = pair[0].requests[0]
    assert (request.template, request.timeout) == ("image:1", 42)
    for again in ({"timeout": 43.0}, {"template": "image:2"}):
        with pytest.raises(ConfigurationError, match="is given twice"):
            await sandboxio.create("auto://image:1?timeout=42", **again)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("target", ["auto://?runtime=runsc", "auto://?timeout=x", "auto://?x=1"])
async def test_what_only_one_backend_knows_is_refused(target: str, pair: tuple[Any, Any]) -> None:
    with pytest.raises(ConfigurationError):
        await sandboxio.create(target)
    assert [made.asked for made in pair] == [0, 0]


def test_it_works_without_an_event_loop(pair: tuple[Any, Any]) -> None:
    with sandboxio.create_sync("auto://") as sandbox:
        assert sandbox.backend == "docker"


async def test_the_process_remembers_what_it_learned(
    pair: tuple[Any, Any], stage: Callable[..., Any]
) -> None:
    await sandboxio.create("auto://")
    await sandboxio.create("auto://")
    assert pair[0].asked == 1
