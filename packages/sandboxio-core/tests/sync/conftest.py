"""A backend of this host under a name, and programs of their own that use the sync facade."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import sandboxio
from sandboxio.spi import DriverBackend

TESTS = Path(__file__).parent.parent

BOUND = 60.0
"""Seconds for a program that ends by itself in one or two."""

PREAMBLE = f"""
import pathlib, sys, threading
sys.path.insert(0, {str(TESTS)!r})
import sandboxio
from conftest import HostDriver
from sandboxio.spi import DriverBackend
driver = HostDriver(pathlib.Path(sys.argv[1]))
sandboxio.register("host", lambda: DriverBackend(driver))
"""


@pytest.fixture
def host(host_driver: Any) -> Iterator[str]:
    """The DSN of a backend of this host."""
    name = f"host{threading.get_ident()}"
    sandboxio.register(name, lambda: DriverBackend(host_driver))
    yield f"{name}://"
    assert host_driver.live == {}, "a sandbox was left"


@pytest.fixture(scope="session")
def wide_host(
    with_host_driver: Callable[[], AbstractContextManager[Any]],
) -> Iterator[str]:
    """The same for fixtures of a wider scope."""
    with with_host_driver() as driver:
        sandboxio.register("widehost", lambda: DriverBackend(driver))
        yield "widehost://"
        assert driver.live == {}, "a sandbox was left"


@pytest.fixture
def portals() -> Iterator[Callable[[], list[threading.Thread]]]:
    """Lists the threads of facades that are open; when the test is over there are none but before."""

    def running() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "sandboxio portal"]

    before = running()
    yield lambda: [thread for thread in running() if thread not in before]
    assert [thread for thread in running() if thread not in before] == []


class Program:
    """A program of its own, with the backend `host` registered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, code: str) -> subprocess.Popen[str]:
        """Start it, warnings being errors; its stdin is a pipe, for waiting."""
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PREAMBLE + code, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"]},
        )

    def run(self, code: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        with self.start(code) as process:
            try:
                out, err = process.communicate(timeout=BOUND)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess([], process.returncode, out, err)


@pytest.fixture
def program() -> Iterator[Program]:
    """Runs programs."""
    # A short name: it holds sockets, whose addresses have few bytes.
    folder = Path(tempfile.mkdtemp(prefix="sbx-"))
    yield Program(folder)
    shutil.rmtree(folder)
