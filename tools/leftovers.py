#!/usr/bin/env python3
"""Tell what a run of sandboxes has left behind on this machine.

    python3 tools/leftovers.py before FILE     write down what is there now
    python3 tools/leftovers.py after FILE      name what has come since; exit code 1 if anything has

It asks the kernel and the Docker Engine, and not sandboxio, which would be judge in its own case. It
needs no package, and sees most as root: what another user's process holds is hidden otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Final

import dockerd

# Programs that run a sandbox or its network. Whatever names us in its command line counts too.
PROGRAMS: Final = frozenset({"bwrap", "pasta", "pasta.avx2", "passt", "slirp4netns", "warden"})
OURS: Final = "sandboxio"

# Where programs put files that should not outlive them.
TEMPORARY: Final = ("/tmp", "/var/tmp", "/run", "/dev/shm", "/run/user")

# The last sandbox of a killed process ends by itself, a moment later: the kernel tells its guest that
# the stream has ended, and Docker removes a container in a fraction of a second. Ten are plenty.
GRACE_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.1

Snapshot = dict[str, list[str]]


def snapshot() -> Snapshot:
    """Return all that could be a leftover, by kind, each with a name that stays the same."""
    return {
        "process": processes(),
        "namespace": namespaces(),
        "mount": mounts(),
        "cgroup": cgroups(),
        "file": temporary_files(),
        "container": [f"container {name}" for name in dockerd.managed_containers()],
    }


def new_since(before: Snapshot, now: Snapshot) -> list[str]:
    """Return what `now` has and `before` had not, one line for each."""
    return [
        f"{kind}: {item}"
        for kind, items in now.items()
        for item in sorted(set(items) - set(before.get(kind, [])))
    ]


def _living() -> list[Path]:
    """Return the `/proc` folders of all processes but this one and those that only wait to be reaped.

    An orphan's exit code waits for the machine's first process, which in a container may never ask.
    """
    living: list[Path] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        if _stat(folder)[:1] not in ([], ["Z"], ["X"]):
            living.append(folder)
    return living


def _stat(process: Path) -> list[str]:
    """Return the fields of `/proc/<pid>/stat` from the state on; none when the process has gone."""
    try:
        # The second field is the name, in parentheses, and may hold anything, parentheses too.
        return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def processes() -> list[str]:
    """Return the processes that run a sandbox: pid, start time and command line."""
    found: list[str] = []
    for folder in _living():
        try:
            name = (folder / "comm").read_text(errors="replace").strip()
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue
        fields = _stat(folder)
        # An editor or a shell in a folder of that name is not ours: a program, a module or a script is.
        words = command.split()[:4]
        ours = any(
            Path(w).name.startswith(OURS) or (w.endswith(".py") and OURS in w) for w in words
        )
        if name in PROGRAMS or ours:
            started = fields[19] if len(fields) > 19 else "?"
            found.append(
                f"{folder.name} started at tick {started}: {command.strip()[:200] or name}"
            )
    return found


def children(pid: int | None = None) -> set[int]:
    """Return the children of a process or of this one, whichever of its threads started them."""
    threads = Path("/proc", "self" if pid is None else str(pid), "task")
    while threads.exists():
        try:
            files = list(threads.glob("*/children"))
            return {int(child) for file in files for child in file.read_text().split()}
        except (FileNotFoundError, ProcessLookupError):
            pass  # a thread has ended, and its children are another's by now
    return set()  # it has ended itself


def namespaces() -> list[str]:
    """Return the namespaces that processes are in, and the named network namespaces."""
    kinds = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
    found: set[str] = set()
    for folder in _living():
        for kind in kinds:
            try:
                found.add(str((folder / "ns" / kind).readlink()))
            except OSError:
                continue
    named = Path("/run/netns")
    return sorted(found) + (
        [f"netns {path.name}" for path in named.iterdir()] if named.is_dir() else []
    )


def mounts() -> list[str]:
    """Return the mounts of this mount namespace, but for those that Docker keeps for itself."""
    found: list[str] = []
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        # The number tells two mounts on one point apart.
        number, _, _, _, point, *_ = line.split()
        if not point.startswith(("/var/lib/docker/", "/run/docker/")):
            found.append(f"{point} (mount {number})")
    return found


def cgroups() -> list[str]:
    """Return the cgroups that carry our name."""
    top = "/sys/fs/cgroup"
    return [
        str(Path(folder, name))
        for folder, names, _ in os.walk(top)
        for name in names
        if OURS in name
    ]


def temporary_files() -> list[str]:
    """Return what carries our name in the folders for temporary files."""
    folders = {*TEMPORARY, os.environ.get("TMPDIR", "/tmp")}
    found: list[str] = []
    for folder in sorted(folders):
        try:
            found += [str(path) for path in Path(folder).iterdir() if OURS in path.name]
        except OSError:
            continue
    return found


def main(argv: list[str] | None = None) -> int:
    """Write a snapshot or compare with one, and return the exit code."""
    parser = argparse.ArgumentParser(description="Tell what a run of sandboxes has left behind.")
    parser.add_argument("when", choices=["before", "after"])
    parser.add_argument("file", type=Path)
    options = parser.parse_args(argv)
    if options.when == "before":
        options.file.write_text(json.dumps(snapshot()), encoding="utf-8")
        return 0
    before: Snapshot = json.loads(options.file.read_text(encoding="utf-8"))
    end = time.monotonic() + GRACE_SECONDS
    while (left := new_since(before, snapshot())) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    for line in left:
        print(f"left behind: {line}")
    if not left:
        print("Nothing was left behind.")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
