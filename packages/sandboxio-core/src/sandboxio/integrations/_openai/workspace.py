"""The files of a session: one by one, and all of them as a tar archive that is made inside."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from uuid import uuid4

from agents.sandbox.errors import (
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.session.tar_workspace import shell_tar_exclude_args
from agents.sandbox.util.tar_utils import UnsafeTarMemberError, validate_tar_bytes

from ...errors import PathNotFound, SandboxError
from ...protocols import AsyncSandbox

__all__ = ["pack", "read_file", "unpack", "write_file"]


async def read_file(sandbox: AsyncSandbox, path: Path) -> io.IOBase:
    """Return what is in a file."""
    try:
        return io.BytesIO(await sandbox.files.read(path.as_posix()))
    except PathNotFound as error:
        raise WorkspaceReadNotFoundError(path=path, cause=error) from error
    except SandboxError as error:
        raise WorkspaceArchiveReadError(path=path, cause=error) from error


async def write_file(sandbox: AsyncSandbox, path: Path, data: io.IOBase) -> None:
    """Write a file, and make the folders above it."""
    try:
        await sandbox.files.mkdir(path.parent.as_posix(), parents=True)
        await sandbox.files.write(path.as_posix(), data.read())
    except SandboxError as error:
        raise WorkspaceArchiveWriteError(path=path, cause=error) from error


async def pack(
    sandbox: AsyncSandbox, root: Path, skip: Iterable[Path], timeout: float
) -> io.IOBase:
    """Return all below ``root`` but ``skip`` as an archive, of at most what one read may hold."""
    archive = f"/tmp/sandboxio-{uuid4().hex}.tar"  # noqa: S108 - inside of the sandbox
    # They come quoted for a shell; the rest needs no quotes, or is quoted here.
    words = [
        "tar",
        *shell_tar_exclude_args(skip),
        "-C",
        quote(root.as_posix()),
        "-cf",
        archive,
        ".",
    ]
    try:
        (await sandbox.run(" ".join(words), timeout=timeout)).raise_for_status()
        data = await sandbox.files.read(archive)
        await sandbox.files.remove(archive)
    except SandboxError as error:
        raise WorkspaceArchiveReadError(path=root, cause=error) from error
    return io.BytesIO(data)


async def unpack(sandbox: AsyncSandbox, root: Path, data: io.IOBase, timeout: float) -> None:
    """Unpack an archive below ``root``; one that reaches out of it is refused before it is sent."""
    archive = f"/tmp/sandboxio-{uuid4().hex}.tar"  # noqa: S108 - inside of the sandbox
    raw = bytes(data.read())
    try:
        validate_tar_bytes(raw, allow_external_symlink_targets=False)
        await sandbox.files.write(archive, raw)
        words = ["tar", "-C", root.as_posix(), "-xf", archive]
        (await sandbox.run(words, timeout=timeout)).raise_for_status()
        await sandbox.files.remove(archive)
    except (SandboxError, UnsafeTarMemberError) as error:
        raise WorkspaceArchiveWriteError(path=root, cause=error) from error
