"""``local:///path/to/rootfs``: a tree of the caller's instead of this host's system."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandboxio.errors import ConfigurationError, CreationError
from sandboxio_local import _python
from sandboxio_local._sandbox import LocalSandbox

Run = Callable[..., Awaitable[Any]]
Make = Callable[..., Awaitable[LocalSandbox]]

PYTHON = Path("/usr/bin/python3")

REAL = os.path.realpath(PYTHON)

LEFT_OUT = ("test", "tests", "__pycache__", "*-packages", "idlelib", "lib2to3", "tkinter", "pydoc*")


def place(tree: Path, path: str) -> Path:
    """Return where a file of the host belongs in a tree whose ``/lib`` is a link."""
    return tree / re.sub(r"^/(bin|lib|lib64|sbin)/", r"usr/\1/", path).lstrip("/")


def copy(tree: Path, path: str) -> None:
    """Copy a program or a library, and the libraries that it needs."""
    target = place(tree, path)
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(os.path.realpath(path), target)
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    for library in re.findall(r"(/\S+) \(0x", listed):
        copy(tree, library)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small system with a shell, a few programs and this host's Python."""
    if not PYTHON.exists() or shutil.which("ldd") is None:
        pytest.skip("this host has no system Python to make a tree from")
    root = tmp_path_factory.mktemp("tree")
    root.chmod(0o755)
    for name in ("bin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for program in ("/bin/sh", "/bin/cat", "/bin/ls", REAL):
        copy(root, program)
    place(root, "/usr/bin/python3").symlink_to(Path(REAL).name)
    code = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    stdlib = subprocess.run([REAL, "-c", code], capture_output=True, text=True, check=True).stdout
    shutil.copytree(
        stdlib.strip(),
        place(root, stdlib.strip()),
        symlinks=True,
        ignore=shutil.ignore_patterns(*LEFT_OUT),
    )
    for extension in place(root, stdlib.strip()).glob("lib-dynload/*.so"):
        listed = subprocess.run(["ldd", extension], capture_output=True, text=True, check=False)
        for library in re.findall(r"(/\S+) \(0x", listed.stdout):
            copy(root, library)
    (root / "etc").mkdir()
    (root / "etc/marker").write_text("of the tree\n")
    (root / "etc/passwd").write_text("theirs:x:1000:1000::/:/bin/sh\n")
    (root / "opt").mkdir()
    (root / "opt/link").symlink_to("/etc/marker")
    return root


@pytest.fixture
def closed_tree(tree: Path) -> Iterator[Path]:
    tree.chmod(0o700)
    yield tree
    tree.chmod(0o755)


async def test_tree_is_what_is_seen(make: Make, run: Run, tree: Path) -> None:
    sandbox = await make(template=str(tree))
    ran = await run(sandbox, "sh", "-c", "cat /etc/marker /opt/link; cat /etc/passwd; ls /usr/bin")
    assert ran.output.startswith("of the tree\nof the tree\nroot:")
    assert "theirs" not in ran.output
    assert set(ran.output.splitlines()[-5:]) == {*("cat", "ls", "sh", "python3", Path(REAL).name)}


async def test_tree_cannot_be_changed(make: Make, run: Run, tree: Path) -> None:
    sandbox = await make(template=str(tree))
    for path in ("/etc/marker", "/usr/bin/new", "/opt/new", "/new"):
        ran = await run(sandbox, "sh", "-c", f"echo changed > {path}")
        assert ran.code != 0, path
    ran = await run(sandbox, "sh", "-c", "echo x > /work/x && echo x > /tmp/x && cat /work/x")
    assert ran.output == "x\n"


async def test_isolation_is_the_same_in_a_tree(make: Make, run: Run, tree: Path) -> None:
    sandbox = await make(template=str(tree))
    ran = await run(
        sandbox,
        *("python3", "-c"),
        "import os; print(os.getuid(), len(os.listdir('/proc/self/fd')), os.path.exists('/home'))",
    )
    assert ran.output.startswith("1000 ")
    assert ran.output.endswith("False\n")
    status = (await run(sandbox, "cat", "/proc/self/status")).output
    assert f"CapBnd:\t{'0' * 16}" in status
    assert "Seccomp:\t2" in status


@pytest.mark.skipif(
    os.path.realpath(sys.base_prefix) == "/usr", reason="this is the system's own Python"
)
async def test_without_a_system_python_ours_runs_inside(
    make: Make, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_python, "_PLACES", ())
    sandbox = await make()
    ran = await run(sandbox, "python3", "-c", "import sys, json; print(sys.base_prefix)")
    prefix = os.path.realpath(sys.base_prefix)  # noqa: ASYNC240
    assert ran.output == f"{prefix}\n"
    around = await run(sandbox, "ls", "-A", str(Path(prefix).parent))
    assert around.output == f"{Path(prefix).name}\n"


async def test_relative_path_through_links_is_followed(
    make: Make, run: Run, tree: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(tree)
    sandbox = await make(template=str(link))
    assert (await run(sandbox, "cat", "/etc/marker")).output == "of the tree\n"


@pytest.mark.parametrize(
    "template", ["rootfs", "./rootfs", "", "/", "/no/such/tree", "/etc/passwd"]
)
async def test_what_is_no_tree_is_refused(make: Make, template: str) -> None:
    with pytest.raises(ConfigurationError):
        await make(template=template)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandbox has the user's rights")
async def test_tree_that_is_closed_to_others_is_refused(make: Make, closed_tree: Path) -> None:
    with pytest.raises(ConfigurationError, match="closed to other users"):
        await make(template=str(closed_tree))


async def test_tree_without_a_shell_is_refused(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="/bin/sh"):
        await make(template=str(tmp_path))


async def test_tree_without_python_is_refused(make: Make, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").touch()
    with pytest.raises(ConfigurationError, match="no Python"):
        await make(template=str(tmp_path))


async def test_broken_interpreter_of_a_tree_is_no_sandbox(
    make: Make, tree: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "tree"
    shutil.copytree(tree, broken, symlinks=True)
    binary = broken / "usr/bin" / Path(REAL).name
    binary.write_text("#!/bin/sh\necho 'I am no Python' >&2\nexit 1\n")
    with pytest.raises(CreationError, match="I am no Python"):
        await make(template=str(broken))
