"""What is in force is what the engine and the kernel say, in either version of cgroups."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sandboxio.errors import ConfigurationError, CreationError
from sandboxio.models import IsolationTier, NetworkPolicy, Resources
from sandboxio_docker._cgroup import CapCounts, count_caps
from sandboxio_docker._engine_info import engine_info
from sandboxio_docker._labels import labels_for
from sandboxio_docker._policy import host_config, read_policy
from sandboxio_docker._runtime import check_runtime, runtime_of, tier_of

MEMORY = 256 << 20

ONE = {
    "memory/memory.limit_in_bytes": f"{MEMORY}\n",
    "memory/memory.memsw.limit_in_bytes": f"{MEMORY}\n",
    "cpu/cpu.cfs_quota_us": "50000\n",
    "cpu/cpu.cfs_period_us": "100000\n",
    "pids/pids.max": "64\n",
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    "pids/pids.events": "max 5\n",
}

TWO = {
    "/memory.max": f"{MEMORY}\n",
    "/memory.swap.max": "0\n",
    "/cpu.max": "50000 100000\n",
    "/pids.max": "64\n",
    "/memory.events": "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n",
    "/pids.events": "max 5\n",
}


class Files:
    """Cgroup files as a kernel has them."""

    where = "host"

    def __init__(self, content: dict[str, str]) -> None:
        self._content = content

    async def read(self, controller: str, name: str) -> str | None:
        return self._content.get(f"{controller}/{name}")


def attributes(**changed: object) -> dict[str, Any]:
    """What the engine says of a container that was made as we ask."""
    resources = Resources(cpu=0.5, memory_mb=256, processes=64)
    config = host_config(resources, NetworkPolicy(), None, init=False)
    return {
        "Id": "0" * 64,
        "State": {"Pid": 0},
        "HostConfig": {**config, **changed},
        "NetworkSettings": {"Networks": {"none": {}}},
    }


async def policy_of(found: dict[str, Any], content: dict[str, str], version: str) -> Any:
    return await read_policy(
        found,
        Files(content),
        cgroup_version=version,
        isolation=IsolationTier.CONTAINER,
        lifetime=60,
        user="",
    )


VERSIONS = pytest.mark.parametrize(("version", "content"), [("1", ONE), ("2", TWO)])


@VERSIONS
async def test_caps_are_read_back_from_the_kernel(version: str, content: dict[str, str]) -> None:
    policy = await policy_of(attributes(), content, version)
    caps = [policy.cpu, policy.memory_mb, policy.processes]
    assert [(cap.value, cap.verified) for cap in caps] == [(0.5, True), (256, True), (64, True)]
    assert all(f"cgroup v{version}" in cap.mechanism for cap in caps)


@VERSIONS
async def test_each_cap_that_the_kernel_does_not_have_is_refused(
    version: str, content: dict[str, str]
) -> None:
    for name in content:
        if "events" in name or "oom" in name or "period" in name:
            continue
        for wrong in ("max", "-1", str(MEMORY * 2)):
            said = f"{wrong} 100000\n" if name == "/cpu.max" else f"{wrong}\n"
            with pytest.raises(CreationError):
                await policy_of(attributes(), {**content, name: said}, version)


@VERSIONS
async def test_what_cannot_be_read_is_not_called_verified(
    version: str, content: dict[str, str]
) -> None:
    policy = await policy_of(attributes(), {}, version)
    caps = [policy.cpu, policy.memory_mb, policy.processes]
    assert [cap.verified for cap in caps] == [False, False, False]
    assert any("could not be read" in note for note in policy.notes)


@pytest.mark.parametrize(
    "changed",
    [
        {"Memory": 0},
        {"MemorySwap": -1},
        {"NanoCpus": 0},
        {"PidsLimit": None},
        {"PidsLimit": 0},
        {"CapDrop": None},
        {"Privileged": True},
        {"NetworkMode": "host"},
    ],
    ids=repr,
)
async def test_engine_that_did_not_do_what_it_was_asked_is_refused(
    changed: dict[str, object],
) -> None:
    with pytest.raises(CreationError):
        await policy_of(attributes(**changed), TWO, "2")


async def test_network_that_came_besides_is_refused() -> None:
    found = copy.deepcopy(attributes())
    found["NetworkSettings"]["Networks"]["bridge"] = {}
    with pytest.raises(CreationError, match="no network"):
        await policy_of(found, TWO, "2")


@VERSIONS
async def test_kernel_says_how_often_it_enforced_a_cap(
    version: str, content: dict[str, str]
) -> None:
    assert await count_caps(Files(content), version) == CapCounts(3, 5)
    assert await count_caps(Files({}), version) == CapCounts()


@pytest.mark.parametrize(
    ("program", "tier"),
    [
        (None, IsolationTier.CONTAINER),
        ("/usr/bin/runc", IsolationTier.CONTAINER),
        ("io.containerd.runc.v2", IsolationTier.CONTAINER),
        ("/usr/local/bin/runsc", IsolationTier.GVISOR),
        ("io.containerd.runsc.v1", IsolationTier.GVISOR),
        ("containerd-shim-kata-v2", IsolationTier.MICROVM),
        ("io.containerd.kata.v2", IsolationTier.MICROVM),
        ("kata-qemu", IsolationTier.MICROVM),
        ("crun", IsolationTier.UNKNOWN),
        ("my-runsc", IsolationTier.UNKNOWN),
    ],
)
def test_isolation_is_what_the_runtime_gives(program: str | None, tier: IsolationTier) -> None:
    assert tier_of(program) is tier


def test_runtime_that_is_less_than_its_name_is_refused() -> None:
    runtimes = {"runc": "runc", "kata": "/usr/bin/runc", "runsc": "/usr/bin/runsc"}
    assert check_runtime("runsc", "runc", runtimes) is IsolationTier.GVISOR
    with pytest.raises(CreationError, match="promised"):
        check_runtime("kata", "runc", runtimes)
    with pytest.raises(ConfigurationError, match="no runtime"):
        check_runtime("nonsense", "runc", runtimes)


def test_default_runtime_may_be_a_path() -> None:
    """As in Podman, whose list has names only."""
    runtimes = {"crun": "/usr/bin/crun", "runc": "/usr/bin/runc"}
    assert check_runtime(None, "/usr/sbin/runc", runtimes) is IsolationTier.CONTAINER
    with pytest.raises(CreationError, match="promised"):
        check_runtime(None, "/usr/bin/crun", runtimes)
    assert check_runtime("crun", "crun", runtimes) is IsolationTier.UNKNOWN


@pytest.mark.parametrize(
    ("said", "asked", "runtime"),
    [
        ("runsc", None, "runsc"),
        ("io.containerd.kata.v2", None, "io.containerd.kata.v2"),
        ("oci", None, "runc"),
        ("oci", "crun", "crun"),
        ("", None, "runc"),
    ],
)
def test_runtime_of_a_container_is_found_again(said: str, asked: str | None, runtime: str) -> None:
    """Podman does not tell."""
    info = engine_info({"Runtimes": {"crun": {}, "runc": {}, "runsc": {}}}, "1.41")
    attributes = {
        "HostConfig": {"Runtime": said},
        "Config": {"Labels": labels_for(60, {}, "python", asked)},
    }
    assert runtime_of(attributes, info) == runtime
