"""What git knows of earlier releases: a release of a wheel is a tag, `sandboxio-docker==0.2.0`."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

from packaging.version import InvalidVersion, Version


def git(root: Path, *arguments: str) -> str:
    """Run git in a checkout and return what it prints; raise `CalledProcessError` if it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout


def releases(root: Path, wheel: str) -> list[Version]:
    """Return the versions of a wheel that have a tag, oldest first."""
    found: list[Version] = []
    for tag in git(root, "tag", "--list", f"{wheel}==*").split():
        try:
            found.append(Version(tag.partition("==")[2]))
        except InvalidVersion:
            continue
    return sorted(found)


def latest(root: Path, wheel: str) -> str | None:
    """Return the tag of the newest release of a wheel; `None` before its first."""
    found = releases(root, wheel)
    return f"{wheel}=={found[-1]}" if found else None


def text_at(root: Path, revision: str, path: str) -> str:
    """Return a file as it was at a revision; empty if it was not there."""
    try:
        return git(root, "show", f"{revision}:{path}")
    except subprocess.CalledProcessError:
        return ""


def unpack(root: Path, revision: str, path: str, target: Path) -> Path:
    """Write a folder, as it was at a revision and without anything else, below `target`."""
    archive = target / "archive.tar"
    target.mkdir(parents=True, exist_ok=True)
    git(root, "archive", f"--output={archive}", revision, "--", path)
    extract(archive, target)
    archive.unlink()
    return target / path


def extract(archive: Path, target: Path) -> None:
    """Unpack an archive that was made here, into `target`."""
    with tarfile.open(archive) as tar:
        # Python 3.11 has the filter from its fourth release on, and later ones warn without it.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(target)  # git and our own build made it


def commit_time(root: Path, revision: str = "HEAD") -> int:
    """Return when a revision was committed, in seconds since 1970: the clock of a reproducible build."""
    return int(git(root, "log", "-1", "--format=%ct", revision))


def is_clean(root: Path) -> bool:
    """Return whether a checkout holds what is committed and nothing else."""
    return not git(root, "status", "--porcelain").strip()


def clone(root: Path, target: Path) -> Path:
    """Make a clone that shares nothing with `root`, with its tags."""
    # The checkout may belong to somebody else than who runs this, which git has to be told.
    options = ["-c", f"safe.directory={root}", "clone", "--quiet", "--no-hardlinks"]
    subprocess.run(["git", *options, str(root), str(target)], check=True)
    return target


def commit_all(root: Path, message: str) -> None:
    """Commit everything, in a clone that is thrown away, as nobody in particular."""
    someone = ["-c", "user.name=rehearsal", "-c", "user.email=rehearsal@localhost"]
    unsigned = ["-c", "commit.gpgsign=false", "-c", f"core.hooksPath={os.devnull}"]
    git(root, "add", "--all")
    git(root, *someone, *unsigned, "commit", "--quiet", "--allow-empty", "--message", message)
