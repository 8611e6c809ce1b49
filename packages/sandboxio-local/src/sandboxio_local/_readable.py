"""Directories of the host that a caller lets a sandbox read, each at a path of its own inside."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import cast

from sandboxio.errors import ConfigurationError

__all__ = ["PLACES", "Readable", "check"]

Readable = tuple[tuple[str, str], ...]
"""Pairs of a real path of the host and the path inside, sorted by the latter."""

PLACES = ("/home", "/mnt", "/opt", "/root", "/srv")
"""Where they may appear: what is below these is nobody's business in a sandbox of this backend."""

_NEVER = frozenset(("/", "/dev", "/etc", "/proc", "/root", "/run", "/sys", "/tmp", "/var"))  # noqa: S108


def check(read_only: object) -> Readable:
    """Return the directories to bind, or refuse.

    Raises:
        ConfigurationError: One is no directory, gives away more than a directory's worth, or would
            hide a part of the sandbox.
    """
    if read_only is None:
        return ()
    if not isinstance(read_only, Mapping):
        raise _refused("it must be a mapping of paths inside to directories of this host")
    pairs = [
        _pair(inside, on_host)
        for inside, on_host in cast("Mapping[object, object]", read_only).items()
    ]
    targets = [PurePosixPath(inside) for _, inside in pairs]
    for target in targets:
        if any(other in target.parents for other in targets):
            raise _refused(f"{str(target)!r} lies in another of its paths")
    return tuple(sorted(pairs, key=lambda pair: pair[1]))


def _pair(inside: object, on_host: object) -> tuple[str, str]:
    if not isinstance(inside, str) or not isinstance(on_host, str):
        raise _refused("its keys and values must be str")
    target = PurePosixPath(inside)
    top = PurePosixPath(*target.parts[:2])
    if str(target) != inside or ".." in target.parts or str(top) not in PLACES or "\0" in inside:
        raise _refused(f"{inside!r} is no normal path in one of {', '.join(PLACES)}")
    real = os.path.realpath(on_host)
    if not on_host.startswith("/") or not Path(real).is_dir():
        raise _refused(f"{on_host!r} is no absolute path of a directory")
    home = Path.home().resolve()
    if real in _NEVER or home == Path(real) or Path(real) in home.parents:
        raise _refused(f"{on_host!r} holds far more than a sandbox should see")
    return real, inside


def _refused(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"LocalConfig.read_only is refused: {why}.",
        hint='For example: LocalConfig(read_only={"/opt/data": "/srv/datasets/small"})',
    )
