"""Unpack wheels into one folder, as an installer would, without one.

    python3 unpack.py WHEELS TARGET

A wheel is a zip file; what is at its top, and under ``*.data/purelib`` and ``platlib``, belongs into
the folder. Scripts, headers and other data are left out: the server needs none.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path, PurePosixPath

LIBRARIES = ("purelib", "platlib")


def unpack(wheel: Path, target: Path) -> None:
    """Unpack one wheel.

    Raises:
        ValueError: A name in it leads out of the folder.
    """
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{wheel.name} holds {member.filename!r}")
            if path.parts[0].endswith(".data"):
                if len(path.parts) < 3 or path.parts[1] not in LIBRARIES:
                    continue
                path = PurePosixPath(*path.parts[2:])
            if member.is_dir():
                continue
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive.read(member))


def main(wheels: str, target: str) -> int:
    """Unpack all of them; return 1 if there is none."""
    found = sorted(Path(wheels).glob("*.whl"))
    if not found:
        sys.stderr.write(f"there is no wheel in {wheels}\n")
        return 1
    for wheel in found:
        unpack(wheel, Path(target))
    sys.stdout.write(f"unpacked {len(found)} wheels\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
