"""How caps are enforced, decided for hosts with and without control groups."""

from __future__ import annotations

import os
import resource

import pytest

from sandboxio.errors import CapabilityNotSupported, ConfigurationError
from sandboxio.models import Resources
from sandboxio_local import _caps
from sandboxio_local._cgroup import Hierarchy
from sandboxio_local._layout import Disk

PLACES = {"memory": "/cg/memory", "pids": "/cg/pids", "cpu": "/cg/cpu"}
GROUPS = Hierarchy(1, PLACES, swap=True)
NO_METER = Hierarchy(1, {name: PLACES[name] for name in ("memory", "pids")}, swap=True)


def test_defaults_need_no_clamping() -> None:
    known = _caps.defaults(GROUPS)
    caps = _caps.plan("sbx-1", known, GROUPS)
    assert caps.disk_mb == known.disk_mb
    assert caps.memory_mb == known.memory_mb
    assert caps.cpu == known.cpu


def test_old_kernel_without_groups_cannot_cap_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_caps, "_kernel", lambda: (5, 10))
    assert _caps.defaults(None).processes is None
    assert _caps.defaults(GROUPS).processes is not None
    with pytest.raises(CapabilityNotSupported, match="processes"):
        _caps.plan("sbx-1", Resources(processes=10), None)
    caps = _caps.plan("sbx-1", Resources(), None)
    assert resource.RLIMIT_NPROC not in dict(caps.limits)


def test_group_counts_the_monitor_on_top() -> None:
    caps = _caps.plan("sbx-1", Resources(processes=10), GROUPS)
    assert caps.groups is not None
    values = {path.rpartition("/")[2]: value for path, value in caps.groups.expected}
    assert values["pids.max"] == "11"


def test_metered_processors_need_no_affinity() -> None:
    caps = _caps.plan("sbx-1", Resources(cpu=0.25), GROUPS)
    assert caps.cores == ()
    assert "sched_setaffinity" not in caps.refused


@pytest.mark.parametrize("hierarchy", [None, NO_METER])
def test_unmetered_processors_are_pinned(hierarchy: Hierarchy | None) -> None:
    caps = _caps.plan("sbx-1", Resources(cpu=1), hierarchy)
    assert len(caps.cores) == 1
    assert set(caps.cores) <= os.sched_getaffinity(0)
    assert "sched_setaffinity" in caps.refused
    with pytest.raises(CapabilityNotSupported, match="whole cores"):
        _caps.plan("sbx-1", Resources(cpu=0.5), hierarchy)


def test_more_cores_than_there_are_is_all_of_them() -> None:
    caps = _caps.plan("sbx-1", Resources(cpu=4096), None)
    assert set(caps.cores) == os.sched_getaffinity(0)


def test_limits_replace_groups() -> None:
    caps = _caps.plan("sbx-1", Resources(memory_mb=100, processes=7), None)
    limits = dict(caps.limits)
    assert caps.groups is None
    assert limits[resource.RLIMIT_DATA] == 100 << 20
    assert limits[resource.RLIMIT_NPROC] == 7
    assert {"memfd_create", "shmget"} <= caps.refused


def test_some_limits_always_apply() -> None:
    for hierarchy in (None, GROUPS):
        limits = dict(_caps.plan("sbx-1", Resources(), hierarchy).limits)
        assert limits[resource.RLIMIT_CORE] == 0
        assert limits[resource.RLIMIT_RTPRIO] == 0
        assert 0 < limits[resource.RLIMIT_NOFILE] <= 65536


@pytest.mark.parametrize(
    "wanted", [Resources(memory_mb=1), Resources(memory_mb=63), Resources(cpu=0.001)]
)
def test_caps_too_small_to_work_with_are_refused(wanted: Resources) -> None:
    with pytest.raises(ConfigurationError):
        _caps.plan("sbx-1", wanted, GROUPS)


def test_a_gpu_is_refused() -> None:
    with pytest.raises(CapabilityNotSupported):
        _caps.plan("sbx-1", Resources(gpu="any"), GROUPS)


@pytest.mark.parametrize("size", [1, 2, 3, 16, 100, 384, 4096])
def test_disk_is_divided_without_loss(size: int) -> None:
    disk = Disk.of(size)
    assert disk.work + disk.tmp + disk.shm == size << 20
    assert disk.work > disk.tmp > disk.shm > 0
    assert {part % 4096 for part in (disk.work, disk.tmp, disk.shm)} == {0}
