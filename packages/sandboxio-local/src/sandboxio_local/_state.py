"""What is written down of every sandbox, so that any process of the same user can find it.

One directory for each sandbox, named by its id, in one directory of the user. The warden holds a
lock on it for as long as it lives; a directory that nobody has locked belongs to a sandbox whose
warden was killed, and whoever finds it removes what is left.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from sandboxio.errors import CreationError

__all__ = ["CONTROL", "Record", "StateDirectory", "base", "valid_id", "validated_base"]

CONTROL: Final = "control"
"""Name of the guest's socket in a state directory."""

CREATE_TRIES: Final = 20
"""Attempts to make a directory while another process removes its empty parent, or the like."""

Record = dict[str, object]
"""What a state file holds."""


def base() -> Path:
    """Return the directory of this user's sandboxes, whether or not it exists.

    It must be the same for every process of the user, so ``XDG_RUNTIME_DIR`` is only asked where
    the system does not say.
    """
    uid = os.geteuid()
    if uid == 0 and os.access("/run", os.W_OK):
        return Path("/run/sandboxio")
    standard = Path(f"/run/user/{uid}")
    if standard.is_dir() and standard.stat().st_uid == uid:
        return standard / "sandboxio"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and Path(runtime).is_dir():
        return Path(runtime) / "sandboxio"
    return Path(f"/tmp/sandboxio-{uid}")  # noqa: S108  # checked for whom it belongs to


def validated_base() -> Path:
    """Return `base` if it exists and is this user's alone.

    Raises:
        FileNotFoundError: There is none, so there are no sandboxes.
        CreationError: It is not to be trusted.
    """
    path = base()
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
        raise CreationError(
            f"{path} is not a directory that only this user may enter.",
            hint=f"Find out who made it, remove it, and try again: ls -ld {path}",
        )
    return path


def valid_id(sandbox_id: str) -> bool:
    """Say whether something can be the id of a sandbox; only that becomes part of a path."""
    return re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", sandbox_id) is not None


class StateDirectory:
    """The state of one sandbox.

    Attributes:
        path: The directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, sandbox_id: str) -> tuple[StateDirectory, int]:
        """Make the directory and lock it; returns it and the descriptor that holds the lock.

        Raises:
            CreationError: It cannot be made, or the id is in use.
        """
        if not valid_id(sandbox_id):
            raise CreationError("The sandbox's name is not one that a directory can have.")
        path = base() / sandbox_id
        for _ in range(CREATE_TRIES):
            try:
                # Not `exist_ok`: that looks again, and others may have removed it by then.
                with suppress(FileExistsError):
                    path.parent.mkdir(mode=0o700)
                validated_base()
                path.mkdir(mode=0o700)
                lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise CreationError(
                    f"The sandbox's state cannot be kept in {path}: {error.strerror}.",
                    hint=f"Make {path.parent.parent} writable.",
                ) from error
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Between the two calls someone may have taken it for an abandoned one.
            made = cls(path)
            if made._is_at(lock):
                return made, lock
            os.close(lock)
        raise CreationError(f"The sandbox's state directory {path} could not be made.")

    @classmethod
    def find(cls, sandbox_id: str) -> StateDirectory | None:
        """Return the state of a sandbox, or ``None`` if there is no such one."""
        if not valid_id(sandbox_id):
            return None
        try:
            found = cls(validated_base() / sandbox_id)
        except FileNotFoundError:
            return None
        return found if found.path.is_dir() and not found.path.is_symlink() else None

    @classmethod
    def all(cls) -> Iterator[StateDirectory]:
        """Find the state of every sandbox of this user."""
        try:
            names = sorted(entry.name for entry in validated_base().iterdir())
        except FileNotFoundError:
            return
        for name in names:
            found = cls.find(name)
            if found is not None:
                yield found

    @property
    def id(self) -> str:
        """The sandbox's id."""
        return self.path.name

    def write(self, name: str, record: Record) -> None:
        """Write a state file; readers see all of it or none."""
        temporary = self.path / f".{name}"
        temporary.write_text(json.dumps(record))
        temporary.rename(self.path / name)

    def read(self, name: str) -> Record | None:
        """Read a state file; ``None`` if there is none yet, or none any more."""
        try:
            record: Record = json.loads((self.path / name).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return record

    def processes(self) -> dict[str, tuple[int, int]]:
        """Return what the warden noted: role to pid and start time."""
        try:
            lines = (self.path / "processes").read_text().splitlines()
        except FileNotFoundError:
            return {}
        fields = [line.split() for line in lines]
        return {role: (int(pid), int(start)) for role, pid, start in fields}

    def take_if_abandoned(self) -> int | None:
        """Lock it if nobody has; returns the descriptor, or ``None`` if its warden lives."""
        try:
            lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
            raise
        # Between the two calls someone else may have removed it, and its creator made it anew: a
        # lock on what was there before says nothing of what is there now.
        if self._is_at(lock):
            return lock
        os.close(lock)
        return None

    def _is_at(self, descriptor: int) -> bool:
        """Say whether an open directory is the one that has this path."""
        with suppress(FileNotFoundError):
            return os.path.samestat(self.path.stat(), os.fstat(descriptor))
        return False

    def remove(self) -> None:
        """Remove the directory, and that of all sandboxes if it was the last."""
        with suppress(FileNotFoundError):
            for entry in list(self.path.iterdir()):
                entry.unlink(missing_ok=True)
            self.path.rmdir()
        with suppress(OSError):  # others are in it
            self.path.parent.rmdir()
