"""State directories: locks, ids, and what is left behind."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from sandboxio_local import _garbage, _processes, _record, _state
from sandboxio_local._state import StateDirectory, valid_id


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sandboxio"
    monkeypatch.setattr(_state, "base", lambda: path)
    return path


def test_directory_in_use_is_not_abandoned(base: Path) -> None:
    state, lock = StateDirectory.create("sbx-1")
    assert state.take_if_abandoned() is None
    assert not _garbage.collect(state)
    os.close(lock)
    assert _garbage.collect(state)
    assert not base.exists()


def test_directory_made_anew_while_it_is_taken_is_not_abandoned(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three at once: one makes it, one removes the first try, one looks at what it saw before."""
    stale, lock = StateDirectory.create("sbx-1")
    os.close(lock)
    locks: list[int] = []
    flock = fcntl.flock

    def others_come_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        stale.remove()
        locks.append(StateDirectory.create("sbx-1")[1])
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", others_come_first)
    assert not _garbage.collect(stale)
    assert stale.path.is_dir()
    os.close(locks[0])
    assert _garbage.collect(stale)
    assert not base.exists()


def test_lock_of_a_fork_counts(base: Path) -> None:
    state, lock = StateDirectory.create("sbx-1")
    copy = os.dup(lock)
    os.close(lock)
    assert state.take_if_abandoned() is None
    os.close(copy)
    assert _garbage.collect(state)


def test_base_goes_with_the_last(base: Path) -> None:
    one, first = StateDirectory.create("sbx-1")
    two, second = StateDirectory.create("sbx-2")
    one.remove()
    assert [state.id for state in StateDirectory.all()] == ["sbx-2"]
    two.remove()
    assert not base.exists()
    assert list(StateDirectory.all()) == []
    for lock in (first, second):
        os.close(lock)


def test_base_that_others_remove_while_it_is_made_is_made_again(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def others_had_it(path: Path, mode: int) -> None:
        monkeypatch.setattr(os, "mkdir", mkdir)
        raise FileExistsError(path)

    monkeypatch.setattr(os, "mkdir", others_had_it)
    state, lock = StateDirectory.create("sbx-1")
    assert [found.id for found in StateDirectory.all()] == ["sbx-1"]
    os.close(lock)
    state.remove()


def test_records_survive(base: Path) -> None:
    state, lock = StateDirectory.create("sbx-1")
    assert state.read(_record.LIVE) is None
    state.write(_record.LIVE, {"init": [1, 2]})
    assert state.read(_record.LIVE) == {"init": [1, 2]}
    os.close(lock)


def test_half_a_record_is_none(base: Path) -> None:
    state, lock = StateDirectory.create("sbx-1")
    (state.path / _record.LIVE).write_text('{"init"')
    assert state.read(_record.LIVE) is None
    os.close(lock)


def test_link_is_no_state(base: Path, tmp_path: Path) -> None:
    _, lock = StateDirectory.create("sbx-1")
    (base / "sbx-2").symlink_to(tmp_path)
    assert StateDirectory.find("sbx-2") is None
    assert [state.id for state in StateDirectory.all()] == ["sbx-1"]
    os.close(lock)


@pytest.mark.parametrize("name", ["sbx-0123456789abcdef", "a", "0-9", "a" * 64])
def test_ids(name: str) -> None:
    assert valid_id(name)


@pytest.mark.parametrize(
    "name", ["", "-a", ".", "..", "a/b", "a\n", "A", "ä", "a" * 65, "a\0", " a", "a.b"]
)
def test_no_ids(name: str) -> None:
    assert not valid_id(name)


def test_collecting_never_touches_another_process(base: Path) -> None:
    """A pid that means another process by now is left alone, whatever the file says."""
    state, lock = StateDirectory.create("sbx-1")
    (state.path / "processes").write_text(f"init {os.getpid()} 1\n")
    os.close(lock)
    assert _garbage.collect(state)


def test_processes_are_named_by_pid_and_start() -> None:
    started = _processes.start_time(os.getpid())
    assert started is not None
    assert _processes.alive(os.getpid(), started)
    assert not _processes.alive(os.getpid(), started + 1)
    assert _processes.open_process(os.getpid(), started + 1) is None
    assert _processes.start_time(1 << 22 | 1) is None


def test_base_is_the_same_whatever_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0 and not Path(f"/run/user/{os.geteuid()}").is_dir():
        pytest.skip("this host gives its users no directory at run time")
    first = _state.base()
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/somewhere/else")
    assert _state.base() == first
