"""Real sandboxes for the tests, made at the level of the driver, and a way to run things in them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import anyio
import pytest

from sandboxio.models import NetworkPolicy, Resources
from sandboxio.spi import Command, ProcessExit, ProvisionRequest
from sandboxio_local._driver import LocalDriver
from sandboxio_local._sandbox import LocalSandbox

RUN_BOUND = 30.0
"""Seconds for any command of these tests."""


UNTIL_BOUND = 15.0
"""Seconds for anything to become true; what is promised is less, and not measured by a test."""


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it wrote to both streams."""

    exit: ProcessExit
    output: str

    @property
    def code(self) -> int:
        return self.exit.exit_code


class Make(Protocol):
    """Makes sandboxes that are ended with the test."""

    async def __call__(
        self,
        *,
        name: str | None = None,
        template: str | None = None,
        resources: Resources | None = None,
        network: NetworkPolicy = ...,
        env: dict[str, str] | None = None,
        timeout: float = ...,
        metadata: dict[str, str] | None = None,
    ) -> LocalSandbox: ...


def request(
    driver: LocalDriver,
    *,
    name: str | None = None,
    template: str | None = None,
    resources: Resources | None = None,
    network: NetworkPolicy = NetworkPolicy(),
    env: dict[str, str] | None = None,
    timeout: float = 60,
    metadata: dict[str, str] | None = None,
) -> ProvisionRequest:
    """Return a request as the engine would make it."""
    known = driver.default_resources
    wanted = resources or Resources()
    return ProvisionRequest(
        name=name or f"sbx-{secrets.token_hex(8)}",
        template=template,
        resources=Resources(
            cpu=wanted.cpu or known.cpu,
            memory_mb=wanted.memory_mb or known.memory_mb,
            disk_mb=wanted.disk_mb or known.disk_mb,
            gpu=wanted.gpu,
            processes=wanted.processes or known.processes,
        ),
        network=network,
        env=env or {},
        secret_names=frozenset(),
        timeout=timeout,
        metadata=metadata or {},
    )


@pytest.fixture
def ask() -> Callable[..., ProvisionRequest]:
    return request


@pytest.fixture
def driver() -> LocalDriver:
    return LocalDriver()


@pytest.fixture
async def make(driver: LocalDriver) -> AsyncGenerator[Make, None]:
    made: list[LocalSandbox] = []

    async def make(
        *,
        name: str | None = None,
        template: str | None = None,
        resources: Resources | None = None,
        network: NetworkPolicy = NetworkPolicy(),
        env: dict[str, str] | None = None,
        timeout: float = 60,
        metadata: dict[str, str] | None = None,
    ) -> LocalSandbox:
        sandbox = await driver.provision(
            request(
                driver,
                name=name,
                template=template,
                resources=resources,
                network=network,
                env=env,
                timeout=timeout,
                metadata=metadata,
            )
        )
        made.append(sandbox)
        return sandbox

    yield make
    for sandbox in made:
        await sandbox.terminate()


@pytest.fixture
async def sandbox(make: Make) -> LocalSandbox:
    return await make()


Run = Callable[..., Awaitable[Ran]]


@pytest.fixture
def run() -> Run:
    return run_in


async def run_in(sandbox: LocalSandbox, *argv: str, stdin: bytes = b"") -> Ran:
    """Run a command to its end."""
    with anyio.fail_after(RUN_BOUND):
        process = await sandbox.start(
            Command(
                argv=argv,
                env={},
                cwd=None,
                stdin=stdin,
                keep_stdin_open=False,
                timeout=RUN_BOUND,
            )
        )
        output = b""
        while (chunk := await process.receive()) is not None:
            output += chunk.data
        ended = await process.wait()
        await process.aclose()
    return Ran(ended, output.decode("utf-8", "backslashreplace"))


Until = Callable[..., Awaitable[None]]


@pytest.fixture
def until() -> Until:
    return wait_until


async def wait_until(condition: Callable[[], bool], bound: float = UNTIL_BOUND) -> None:
    """Return when something outside of this process has become true."""
    with anyio.fail_after(bound):
        while not condition():  # noqa: ASYNC110 - the kernel tells nobody
            await anyio.sleep(0.01)
