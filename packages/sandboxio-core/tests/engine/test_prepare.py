"""What is missing is prepared once, outside the deadline of create."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from sandboxio.errors import CreateTimeout, CreationError, SandboxError
from sandboxio.spi import DriverBackend, ProvisionRequest, Unprepared

SHORT = 0.05
"""Seconds that a create may take here; what is prepared takes longer."""


@pytest.fixture
def missing(driver: Any) -> list[str]:
    """Has `driver` miss something as long as this list is not empty."""
    absent = ["image"]

    async def before() -> None:
        if absent:
            raise Unprepared(f"There is no {absent[0]}.")

    driver.acts["before"] = before
    return absent


async def test_missing_is_prepared_in_a_time_of_its_own(
    backend: DriverBackend, driver: Any, missing: list[str]
) -> None:
    asked: list[ProvisionRequest] = []

    async def prepare(request: ProvisionRequest) -> None:
        asked.append(request)
        await anyio.sleep(4 * SHORT)
        missing.clear()

    driver.prepare = prepare
    async with await backend.create(timeout=SHORT):
        assert asked == driver.requests[:1]
        assert driver.requests == 2 * asked


async def test_driver_that_cannot_prepare_says_what_is_missing(
    backend: DriverBackend, driver: Any, missing: list[str]
) -> None:
    with pytest.raises(Unprepared, match="no image"):
        await backend.create()
    assert len(driver.requests) == 1


async def test_preparing_that_does_not_help_is_not_repeated(
    backend: DriverBackend, driver: Any, missing: list[str]
) -> None:
    async def prepare(_request: ProvisionRequest) -> None: ...

    driver.prepare = prepare
    with pytest.raises(Unprepared):
        await backend.create()
    assert len(driver.requests) == 2
    assert driver.there == set()


@pytest.mark.parametrize(
    ("error", "seen"),
    [(CreateTimeout("too slow"), CreateTimeout), (OSError("hunter2-hunter2"), CreationError)],
)
async def test_preparing_that_fails_fails_the_create(
    backend: DriverBackend,
    driver: Any,
    missing: list[str],
    error: Exception,
    seen: type[SandboxError],
) -> None:
    async def prepare(_request: ProvisionRequest) -> None:
        raise error

    driver.prepare = prepare
    with pytest.raises(seen) as caught:
        await backend.create(secrets={"KEY": "hunter2-hunter2"})
    assert "hunter2" not in str(caught.value)
    assert len(driver.requests) == 1


async def test_cancelled_preparing_leaves_nothing(
    backend: DriverBackend, driver: Any, missing: list[str]
) -> None:
    began = anyio.Event()

    async def prepare(_request: ProvisionRequest) -> None:
        began.set()
        await anyio.sleep_forever()

    driver.prepare = prepare
    async with anyio.create_task_group() as group:
        group.start_soon(backend.create)
        with anyio.fail_after(30):
            await began.wait()
        group.cancel_scope.cancel()
    assert driver.there == set()
    assert len(driver.requests) == 1
