"""In a notebook: a cell runs within a running loop, on a real kernel."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

BOUND = 90.0
"""Seconds for one cell, the first of which imports; they take milliseconds."""

TESTS = Path(__file__).parent.parent

CELLS = [
    f"""
import pathlib, sys, threading
sys.path.insert(0, {str(TESTS)!r})
import sandboxio
from conftest import HostDriver
from sandboxio.spi import DriverBackend
driver = HostDriver(pathlib.Path.cwd())
sandboxio.register("host", lambda: DriverBackend(driver))
import asyncio
assert asyncio.get_running_loop().is_running()
""",
    """
sandbox = sandboxio.create_sync("host://", timeout=300)
print(sandbox.run(["echo", "from a cell"]).stdout, end="")
""",
    """
with sandbox.stream(["seq", "3"]) as process:
    for chunk in process:
        print(chunk.data.decode(), end="")
try:
    sandbox.run("sleep 100", timeout=0.3)
except sandboxio.ExecutionTimeout as error:
    print(error.code)
""",
    # The async API in the very same notebook.
    """
async with await sandboxio.create("host://", timeout=300) as other:
    print((await other.run(["echo", "awaited"])).stdout, end="")
""",
    """
sandbox.close()
print(len(driver.live), [t.name for t in threading.enumerate() if "sandboxio" in t.name])
""",
]


@pytest.fixture
def kernel_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a kernel that is the Python of this test, whatever is installed for the user."""
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "here",
        "language": "python",
    }
    folder = tmp_path / "jupyter" / "kernels" / "here"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    # Locals of Jupyter's own modules; what is tested here is ours.
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    return "here"


def outputs(notebook: Any) -> list[str]:
    """What each cell printed."""
    return [
        "".join(output.get("text", "") for output in cell.get("outputs", []))
        for cell in notebook.cells
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:nbclient")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq")
def test_a_notebook(program: Any, kernel_here: str) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = NotebookClient(
        notebook,
        timeout=BOUND,
        kernel_name=kernel_here,
        resources={"metadata": {"path": str(program.folder)}},
    )
    client.execute()
    assert outputs(notebook) == [
        "",
        "from a cell\n",
        "1\n2\n3\nSBX_E1302\n",
        "awaited\n",
        "0 []\n",
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:nbclient")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq")
def test_a_notebook_that_closes_nothing_leaves_nothing(program: Any, kernel_here: str) -> None:
    cells = [*CELLS[:2], "print(driver.live[sandbox.id].process.pid)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(
        notebook,
        timeout=BOUND,
        kernel_name=kernel_here,
        resources={"metadata": {"path": str(program.folder)}},
    )
    client.execute()
    pid = int(outputs(notebook)[2])
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    import select

    ready, _, _ = select.select([descriptor], [], [], BOUND)
    os.close(descriptor)
    assert ready, "the sandbox outlived the kernel"
