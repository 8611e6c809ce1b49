"""Tests of the guest from outside, on every Python that is at hand."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandboxio.protocols import AsyncSandbox
from sandboxio.spi import DriverBackend

VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
"""Every Python that the guest promises to run on."""

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"

ASYNCIO: Any = ("asyncio", {"debug": True})
TRIO: Any = ("trio", {})


def interpreter(version: str) -> str | None:
    """Return a Python of that version on this machine."""
    candidates = [shutil.which(f"python{version}")]
    versions = Path.home() / ".pyenv" / "versions"
    candidates += [str(folder / "bin" / "python3") for folder in versions.glob(f"{version}.*")]
    return next((path for path in candidates if path and works(path)), None)


def works(python: str) -> bool:
    """Whether it is a Python, and not the shim of one."""
    if not Path(python).exists():
        return False
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def cases() -> list[Any]:
    """Both event loops with our own Python, and one with each of the others."""
    found: list[Any] = [
        pytest.param((ASYNCIO, sys.executable), id=f"asyncio-{HERE}"),
        pytest.param((TRIO, sys.executable), id=f"trio-{HERE}"),
    ]
    for version in VERSIONS:
        if version != HERE:
            python = interpreter(version)
            marks = [pytest.mark.slow]  # each of them takes as long as our own, and finds less
            if python is None:
                marks.append(pytest.mark.skip(reason=f"python{version} is not on this machine"))
            found.append(pytest.param((ASYNCIO, python), id=f"asyncio-{version}", marks=marks))
    return found


@pytest.fixture(scope="module", params=cases())
def guest_case(request: pytest.FixtureRequest) -> Any:
    """An event loop for the host, and a Python for the guest."""
    return request.param


@pytest.fixture(scope="module")
def anyio_backend(guest_case: Any) -> Any:
    """The event loop of this case."""
    return guest_case[0]


@pytest.fixture(scope="module")
def guest_python(guest_case: Any) -> str:
    """The guest's Python of this case."""
    return str(guest_case[1])


@pytest.fixture
def host_driver(with_host_driver: Any, guest_python: str) -> Iterator[Any]:
    """A driver whose guests run on the Python of this case."""
    with with_host_driver(guest_python) as driver:
        yield driver


@pytest.fixture(scope="module")
async def shared_sandbox(with_host_driver: Any, guest_python: str) -> AsyncIterator[AsyncSandbox]:
    """One sandbox for all tests of a module that leave it as it was, apart from their files."""
    with with_host_driver(guest_python) as driver:
        async with await DriverBackend(driver).create(timeout=300) as made:
            yield made
