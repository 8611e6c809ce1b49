"""Where control groups can be made, found in files like those of other hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxio_local import _cgroup
from sandboxio_local._warden import groups
from sandboxio_local._warden.waiting import Failed

V1_MOUNTS = """\
30 29 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 29 0:27 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
32 29 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 29 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""

V1_MEMBERSHIPS = """\
9:name=systemd:/
8:pids:/user
4:memory:/user/session
2:cpu,cpuacct:/
0::/
"""

V2_MOUNTS = "35 29 0:30 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"


class Host:
    """Files as the kernel shows them, below a temporary directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.proc = root / "proc"
        self.proc.mkdir()
        self.cgroup = root / "sys/fs/cgroup"

    def proc_files(self, mounts: str, memberships: str) -> None:
        (self.proc / "mountinfo").write_text(mounts)
        (self.proc / "cgroup").write_text(memberships)

    def group(self, path: str, **files: str) -> Path:
        folder = self.cgroup / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in {"cgroup_procs": "", **files}.items():
            (folder / name.replace("_", ".", 1)).write_text(content)
        return folder

    def find(self) -> _cgroup.Hierarchy | None:
        return _cgroup.find(self.proc, self.root)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def v1(host: Host) -> Host:
    host.proc_files(V1_MOUNTS, V1_MEMBERSHIPS)
    session = host.group("memory/user/session")
    (session / "memory.memsw.limit_in_bytes").write_text("0")
    host.group("pids/user")
    host.group("cpu,cpuacct")
    host.group("unified")
    return host


def test_version_1_groups_are_made_below_our_own(v1: Host) -> None:
    found = v1.find()
    assert found is not None
    assert found.version == 1
    assert found.swap
    assert found.places == {
        "memory": str(v1.cgroup / "memory/user/session"),
        "pids": str(v1.cgroup / "pids/user"),
        "cpu": str(v1.cgroup / "cpu,cpuacct"),
    }


def test_version_1_plan_caps_swap_with_memory(v1: Host) -> None:
    found = v1.find()
    assert found is not None
    plan = found.plan("sbx-1", memory=1 << 27, processes=9, cpu=0.5)
    memory = v1.cgroup / "memory/user/session/sandboxio/sbx-1"
    expected = dict(plan.expected)
    assert expected[f"{memory}/memory.limit_in_bytes"] == str(1 << 27)
    assert expected[f"{memory}/memory.memsw.limit_in_bytes"] == str(1 << 27)
    assert expected[str(v1.cgroup / "pids/user/sandboxio/sbx-1/pids.max")] == "9"
    cpu = v1.cgroup / "cpu,cpuacct/sandboxio/sbx-1"
    assert expected[f"{cpu}/cpu.cfs_quota_us"] == "50000"
    assert len(plan.join) == 3
    assert plan.events == f"{memory}/memory.oom_control"
    # The limit on memory must be there before the one on both together, which may not be lower.
    order = [path for path, _ in plan.expected]
    assert order.index(f"{memory}/memory.limit_in_bytes") < order.index(
        f"{memory}/memory.memsw.limit_in_bytes"
    )


def test_version_1_without_a_processor_controller_leaves_it_out(v1: Host) -> None:
    v1.proc_files(
        V1_MOUNTS.replace("cpu,cpuacct rw", "x rw").replace("rw,cpu,", "rw,"), V1_MEMBERSHIPS
    )
    found = v1.find()
    assert found is not None
    assert "cpu" not in found.places
    plan = found.plan("sbx-1", memory=1 << 27, processes=9, cpu=None)
    assert len(plan.join) == 2


def test_version_1_without_memory_is_nothing(v1: Host) -> None:
    v1.proc_files(V1_MOUNTS.replace("rw,memory", "rw,other"), V1_MEMBERSHIPS)
    assert v1.find() is None


def test_mount_of_a_part_is_read_relative_to_it(host: Host) -> None:
    mounts = V1_MOUNTS.replace(" / /sys/fs/cgroup/memory", " /docker/abc /sys/fs/cgroup/memory")
    mounts = mounts.replace(" / /sys/fs/cgroup/pids", " /docker/abc /sys/fs/cgroup/pids")
    host.proc_files(mounts, "4:memory:/docker/abc/inner\n8:pids:/docker/abc\n")
    host.group("memory/inner")
    host.group("pids")
    found = host.find()
    assert found is not None
    assert found.places["memory"] == str(host.cgroup / "memory/inner")
    assert found.places["pids"] == str(host.cgroup / "pids")


def test_process_outside_of_what_is_mounted_finds_nothing(host: Host) -> None:
    mounts = V1_MOUNTS.replace(" / /sys/fs/cgroup/memory", " /docker/abc /sys/fs/cgroup/memory")
    host.proc_files(mounts, "4:memory:/docker/abcdef\n8:pids:/\n")
    host.group("memory")
    host.group("pids")
    assert host.find() is None


def v2_host(host: Host, own: str) -> None:
    host.proc_files(V2_MOUNTS, f"0::{own}\n")


def test_version_2_looks_upwards_for_a_group_that_hands_down(host: Host) -> None:
    v2_host(host, "/user.slice/app.slice/shell.scope")
    host.group("", cgroup_subtree_control="cpu memory pids")
    host.group("user.slice", cgroup_subtree_control="memory pids")
    host.group("user.slice/app.slice", cgroup_subtree_control="memory pids cpu io")
    host.group("user.slice/app.slice/shell.scope", cgroup_subtree_control="")
    (host.cgroup / "user.slice/app.slice/shell.scope/memory.swap.max").write_text("max")
    found = host.find()
    assert found is not None
    assert found.version == 2
    assert found.swap
    place = str(host.cgroup / "user.slice/app.slice")
    assert found.places == dict.fromkeys(("memory", "pids", "cpu"), place)


def test_version_2_prefers_a_group_with_all_controllers(host: Host) -> None:
    v2_host(host, "/a/b")
    host.group("", cgroup_subtree_control="cpu memory pids")
    host.group("a", cgroup_subtree_control="memory pids")
    host.group("a/b", cgroup_subtree_control="")
    found = host.find()
    assert found is not None
    assert found.places["cpu"] == str(host.cgroup)


def test_version_2_plan_forbids_swap(host: Host) -> None:
    v2_host(host, "/a")
    host.group("", cgroup_subtree_control="cpu memory pids")
    host.group("a", cgroup_subtree_control="")
    (host.cgroup / "a/memory.swap.max").write_text("max")
    found = host.find()
    assert found is not None
    plan = found.plan("sbx-1", memory=1 << 27, processes=9, cpu=2)
    group = host.cgroup / "sandboxio/sbx-1"
    assert dict(plan.expected) == {
        f"{group}/memory.max": str(1 << 27),
        f"{group}/memory.swap.max": "0",
        f"{group}/pids.max": "9",
        f"{group}/cpu.max": "200000 100000",
    }
    assert plan.steps[0] == f"mkdir={host.cgroup}/sandboxio"
    assert plan.steps[1].startswith(f"write={host.cgroup}/sandboxio/cgroup.subtree_control=+")
    assert plan.join == (f"{group}/cgroup.procs",)
    assert plan.events == f"{group}/memory.events"


def test_version_2_without_delegation_is_nothing(host: Host) -> None:
    v2_host(host, "/a")
    host.group("", cgroup_subtree_control="cpu")
    host.group("a", cgroup_subtree_control="")
    assert host.find() is None


def test_no_control_groups_are_nothing(host: Host) -> None:
    assert host.find() is None
    host.proc_files("", "")
    assert host.find() is None


@pytest.mark.parametrize(
    ("content", "kills"),
    [
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3),
        ("low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n", 1),
        ("oom_kill_disable 0\nunder_oom 0\n", None),
    ],
)
def test_kills_are_read_from_either_version(
    tmp_path: Path, content: str, kills: int | None
) -> None:
    (tmp_path / "events").write_text(content)
    assert _cgroup.oom_kills(str(tmp_path / "events")) == kills
    assert _cgroup.oom_kills(str(tmp_path / "gone")) is None


def test_steps_are_done_in_order(tmp_path: Path) -> None:
    parent, group = tmp_path / "sandboxio", tmp_path / "sandboxio/sbx-1"
    parent.mkdir()
    group.mkdir()
    (group / "pids.max").write_text("")
    groups.make([f"mkdir={parent}", f"mkdir={group}", f"write={group}/pids.max=7"])
    assert (group / "pids.max").read_text() == "7"


def test_failing_step_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(Failed) as caught:
        groups.make([f"mkdir={tmp_path}/g", f"write={tmp_path}/g/memory.max=1"])
    assert caught.value.what == "cgroup"
    assert "memory.max" in caught.value.detail


def test_removing_takes_the_empty_parent_too(tmp_path: Path) -> None:
    for name in ("sbx-1", "sbx-2"):
        (tmp_path / "sandboxio" / name).mkdir(parents=True)
    assert groups.remove([f"{tmp_path}/sandboxio/sbx-1/cgroup.procs"])
    assert [path.name for path in (tmp_path / "sandboxio").iterdir()] == ["sbx-2"]
    assert groups.remove([f"{tmp_path}/sandboxio/sbx-2/cgroup.procs"])
    assert list(tmp_path.iterdir()) == []
    assert groups.remove([f"{tmp_path}/sandboxio/sbx-2/cgroup.procs"])
