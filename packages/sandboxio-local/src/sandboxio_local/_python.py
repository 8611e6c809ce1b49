"""Which Python runs the guest inside a sandbox, found without running any."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sandboxio.errors import ConfigurationError

__all__ = ["Interpreter", "in_tree", "on_host"]

OLDEST = (3, 8)
"""Oldest Python that the guest runs on."""

MAX_LINKS = 40
"""Symbolic links that one path may go through, as in the kernel."""

_PLACES = ("/usr/local/bin/python3", "/usr/bin/python3", "/bin/python3")


@dataclass(frozen=True)
class Interpreter:
    """A Python inside the sandbox.

    Attributes:
        path: Its absolute path there.
        version: For example ``(3, 11)``.
        prefix: Directory of the host that must be bound at its own path for it to work, or
            ``None`` if it belongs to the system directories.
    """

    path: str
    version: tuple[int, int]
    prefix: str | None = None


def on_host() -> Interpreter:
    """Return the host's own Python, or else the one that this process runs on.

    Raises:
        ConfigurationError: Neither can be used.
    """
    found = _system_python("/")
    if found is not None:
        return found
    prefix = os.path.realpath(sys.base_prefix)
    path = Path(prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    home = os.path.realpath(Path.home())
    if prefix in ("/", "/usr") or Path(home).is_relative_to(prefix) or not path.exists():
        raise _no_python("no python3 in /usr/bin, and the running one cannot be bound")
    if importlib.util.find_spec("_ctypes") is None:
        raise _no_python(f"the Python in {prefix} has no ctypes")
    return Interpreter(str(path), sys.version_info[:2], prefix)


def in_tree(root: str) -> Interpreter:
    """Return the Python of a root file system.

    Raises:
        ConfigurationError: It has none that the guest runs on.
    """
    found = _system_python(root)
    if found is None:
        raise ConfigurationError(
            f"The root file system {root} has no Python {OLDEST[0]}.{OLDEST[1]} or newer with ctypes.",
            hint="Install python3 in it, at /usr/bin/python3 or /usr/local/bin/python3.",
        )
    return found


def _no_python(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"There is no Python that could run inside a sandbox: {why}.",
        hint="Install one, for example: apt-get install python3",
    )


def _system_python(root: str) -> Interpreter | None:
    for place in _PLACES:
        real = resolve(root, place)
        if real is None or not os.access(_below(root, real), os.X_OK):
            continue
        match = re.fullmatch(r"python(\d+)\.(\d+)", real.name)
        if match is None:
            continue
        version = (int(match[1]), int(match[2]))
        if version < OLDEST:
            continue
        prefix = real.parent.parent
        for library in ("lib", "lib64"):
            folder = _below(root, prefix / library / real.name)
            if (folder / "ctypes" / "__init__.py").exists() and any(
                (folder / "lib-dynload").glob("_ctypes.*.so")
            ):
                return Interpreter(place, version)
    return None


def _below(root: str, path: PurePosixPath) -> Path:
    return Path(root, path.relative_to("/"))


def resolve(root: str, path: str) -> PurePosixPath | None:
    """Return where a path leads inside a tree, its links read as the tree itself would.

    A link in a tree may be absolute; followed by the host, it would lead out of the tree.
    """
    todo = list(PurePosixPath(path).parts[1:])
    done = PurePosixPath("/")
    links = 0
    while todo:
        part = todo.pop(0)
        if part == "..":
            done = done.parent
            continue
        here = _below(root, done / part)
        if here.is_symlink():
            links += 1
            if links > MAX_LINKS:
                return None
            target = PurePosixPath(here.readlink())
            todo = [*(target.parts[1:] if target.is_absolute() else target.parts), *todo]
            done = PurePosixPath("/") if target.is_absolute() else done
        elif here.exists():
            done = done / part
        else:
            return None
    return done
