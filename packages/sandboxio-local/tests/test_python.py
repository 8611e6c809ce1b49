"""Which Python runs the guest, and how paths of a tree are read."""

from __future__ import annotations

import os
import sys
from pathlib import Path, PurePosixPath

import pytest

from sandboxio.errors import ConfigurationError
from sandboxio_local import _python


def install(root: Path, version: str, *, ctypes: bool = True, prefix: str = "usr") -> None:
    """Put what is looked for of a Python into a tree."""
    binary = root / prefix / "bin" / f"python{version}"
    binary.parent.mkdir(parents=True, exist_ok=True)
    binary.write_text("")
    binary.chmod(0o755)
    (binary.parent / "python3").symlink_to(binary.name)
    library = root / prefix / "lib" / f"python{version}"
    (library / "ctypes").mkdir(parents=True)
    (library / "lib-dynload").mkdir()
    if ctypes:
        (library / "ctypes/__init__.py").touch()
        (library / "lib-dynload/_ctypes.cpython-x.so").touch()


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.14"])
def test_python_of_a_tree_is_found(tmp_path: Path, version: str) -> None:
    install(tmp_path, version)
    found = _python.in_tree(str(tmp_path))
    assert found.path == "/usr/bin/python3"
    assert f"{found.version[0]}.{found.version[1]}" == version
    assert found.prefix is None


@pytest.mark.parametrize("version", ["2.7", "3.7"])
def test_old_python_is_refused(tmp_path: Path, version: str) -> None:
    install(tmp_path, version)
    with pytest.raises(ConfigurationError, match="no Python"):
        _python.in_tree(str(tmp_path))


def test_python_without_ctypes_is_refused(tmp_path: Path) -> None:
    install(tmp_path, "3.11", ctypes=False)
    with pytest.raises(ConfigurationError, match="ctypes"):
        _python.in_tree(str(tmp_path))


def test_python_in_local_comes_first(tmp_path: Path) -> None:
    install(tmp_path, "3.11")
    install(tmp_path, "3.12", prefix="usr/local")
    assert _python.in_tree(str(tmp_path)).path == "/usr/local/bin/python3"


def test_tree_without_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no Python"):
        _python.in_tree(str(tmp_path))


def test_absolute_links_stay_in_the_tree(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/sh").touch()
    (tmp_path / "bin").symlink_to("/usr/bin")
    assert _python.resolve(str(tmp_path), "/bin/sh") == PurePosixPath("/usr/bin/sh")


def test_links_upwards_stay_in_the_tree(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "a/link").symlink_to("../../../../../etc")
    assert _python.resolve(str(tmp_path), "/a/link") == PurePosixPath("/etc")
    assert _python.resolve(str(tmp_path), "/a/link/passwd") is None


def test_link_loop_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    assert _python.resolve(str(tmp_path), "/one") is None


def test_without_a_system_python_ours_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_python, "_PLACES", ())
    prefix = os.path.realpath(sys.base_prefix)
    if prefix == "/usr":
        with pytest.raises(ConfigurationError):
            _python.on_host()
        return
    found = _python.on_host()
    assert found.prefix == prefix
    assert found.path.startswith(f"{prefix}/bin/python3")
    assert found.version == sys.version_info[:2]


def test_prefix_that_holds_a_home_is_never_bound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_python, "_PLACES", ())
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}").touch()
    assert _python.on_host().prefix == str(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(ConfigurationError):
        _python.on_host()
