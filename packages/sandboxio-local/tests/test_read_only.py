"""Directories of the host that a creator lets a sandbox read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import sandboxio
from sandboxio import ConfigurationError
from sandboxio_local import LocalBackend, LocalConfig


async def test_named_directory_can_be_read_and_not_written(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        if folder.stat().st_uid == os.getuid() and folder.name.startswith(("pytest", "test")):
            folder.chmod(0o755)
    (tmp_path / "fact.txt").write_text("known")
    backend = LocalBackend(read_only={"/opt/facts": str(tmp_path)})
    async with await backend.create(timeout=60) as sandbox:
        assert await sandbox.files.read("/opt/facts/fact.txt") == b"known"
        assert not (await sandbox.run("echo other > /opt/facts/fact.txt")).ok
        assert not (await sandbox.run(["touch", "/opt/facts/new"])).ok
        assert any(str(tmp_path) in note for note in sandbox.policy.notes)
    assert (tmp_path / "fact.txt").read_text() == "known"


@pytest.mark.parametrize(
    "read_only",
    [
        {"/work/x": "/usr/share"},
        {"/opt/../etc": "/usr/share"},
        {"/opt": "relative"},
        {"/opt/x": "/"},
        {"/opt/x": "/etc"},
        {"/opt/x": "/nonexistent"},
        {"/opt/x": "/etc/passwd"},
        {"/opt/x": str(Path.home())},
        {"/opt/x": "/usr/share", "/opt/x/y": "/usr/lib"},
        {"/opt/x": 1},
        "/opt/x",
    ],
    ids=str,
)
async def test_what_would_give_away_or_hide_too_much_is_refused(read_only: Any) -> None:
    with pytest.raises(ConfigurationError):
        await sandboxio.create(LocalConfig(read_only=read_only))


async def test_template_and_read_only_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        await sandboxio.create(
            LocalConfig(template=str(tmp_path), read_only={"/opt/x": "/usr/share"})
        )
