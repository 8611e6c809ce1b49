"""The library's logger: one, silent by itself, and one record for each operation at DEBUG."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxio import AsyncSandbox, PathNotFound


async def test_an_operation_is_one_debug_record(
    recorded: AsyncSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "sandboxio"):
        await recorded.run(["echo", "hello"])
    (record,) = [record for record in caplog.records if record.name == "sandboxio"]
    assert record.levelno == logging.DEBUG
    assert "exec" in record.getMessage()
    assert recorded.id in record.getMessage()
    assert record.__dict__["sandboxio"]["argv"] == ["echo", "hello"]


async def test_above_debug_there_is_none(
    recorded: AsyncSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "sandboxio"):
        await recorded.run(["true"])
        with pytest.raises(PathNotFound):
            await recorded.files.read("nothing")
    assert [record for record in caplog.records if record.name == "sandboxio"] == []


QUIET = """
import logging, sys, anyio
from sandboxio.spi import DriverBackend
from sandboxio.errors import SandboxError
sys.path.insert(0, {tests!r})
from conftest import host_drivers
before = list(logging.getLogger().handlers)
async def main():
    with host_drivers() as driver:
        async with await DriverBackend(driver).create(timeout=60) as sandbox:
            await sandbox.run(["true"])
            try:
                await sandbox.files.read("nothing")
            except SandboxError:
                pass
anyio.run(main)
logger = logging.getLogger("sandboxio")
assert logging.getLogger().handlers == before
assert [type(handler).__name__ for handler in logger.handlers] == ["NullHandler"]
assert logger.propagate
sys.exit(10 + (logger.getEffectiveLevel() == logging.DEBUG))
"""


@pytest.mark.parametrize("debug", ["", "1"])
def test_the_library_prints_nothing_and_installs_nothing(debug: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            QUIET.format(tests=str(Path(__file__).parent.parent)),
        ],
        env={"PATH": "/usr/bin:/bin", "SBX_DEBUG": debug},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert done.returncode == 10 + bool(debug)


def test_import_loads_no_logging() -> None:
    code = "import sys, sandboxio; sys.exit('logging' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
