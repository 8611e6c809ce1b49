"""How containers come and go, and whose they are."""

from __future__ import annotations

import json
import os
from typing import Any

import anyio
import docker.errors
import pytest

from dockerd import PYTHON_IMAGE
from sandboxio import IsolationTier, NetworkPolicy, Resources
from sandboxio.errors import (
    CapabilityNotSupported,
    ConfigurationError,
    ConnectError,
    SandboxGone,
    UnverifiedIsolationWarning,
)
from sandboxio.spi import GUEST_PROGRAM
from sandboxio_docker import DockerBackend

pytestmark = pytest.mark.docker


def exists(engine: Any, ref: str) -> bool:
    try:
        engine.inspect_container(ref)
    except docker.errors.NotFound:
        return False
    return True


async def test_container_that_never_started_is_listed_and_removed(
    engine: Any, backend: DockerBackend
) -> None:
    made = engine.create_container(
        PYTHON_IMAGE, ["true"], labels={"io.sandboxio.managed": "true", "io.sandboxio.meta.a": "b"}
    )
    (found,) = await backend.list_managed(labels={"a": "b"})
    assert (found.sandbox_id, found.state, found.labels) == (made["Id"], "stopped", {"a": "b"})
    assert await backend.kill_managed(made["Id"])
    assert not exists(engine, made["Id"])


async def test_foreign_container_is_neither_seen_nor_removed_nor_joined(
    engine: Any, backend: DockerBackend
) -> None:
    made = engine.create_container(PYTHON_IMAGE, ["true"])["Id"]
    try:
        assert made not in [item.sandbox_id for item in await backend.list_managed()]
        assert not await backend.kill_managed(made)
        with pytest.raises(ConnectError):
            await backend.connect(made)
        assert exists(engine, made)
    finally:
        engine.remove_container(made)


@pytest.mark.parametrize("ref", ["../../images", "a", "x/y?z", "-f", "\n"])
async def test_id_that_is_none_is_no_path_of_the_api(ref: str, backend: DockerBackend) -> None:
    if ref.strip():
        assert not await backend.kill_managed(ref)
    with pytest.raises(ConnectError):
        await backend.connect(ref)


async def test_second_process_sees_the_same_sandbox_and_leaves_it(either: DockerBackend) -> None:
    other = DockerBackend()
    async with await either.create(
        timeout=60, env={"COLOUR": "blue"}, secrets={"KEY": "hunter2-hunter2"}
    ) as sandbox:
        await sandbox.files.write("a.txt", "from the first")
        async with await other.connect(sandbox.id) as attached:
            seen = await attached.run('cat a.txt; printf " %s %s" "$COLOUR" "$KEY"')
            assert seen.stdout == "from the first blue hunter2-hunter2"
            assert attached.policy == sandbox.policy
            await attached.files.write("b.txt", "from the second")
        assert await sandbox.files.read("b.txt") == b"from the second"


async def test_provider_shows_neither_environment_nor_secrets(
    engine: Any, either: DockerBackend
) -> None:
    async with await either.create(
        timeout=60, env={"COLOUR": "indigo-env"}, secrets={"KEY": "hunter2-hunter2"}
    ) as sandbox:
        await sandbox.run(["true"], env={"CALL": "call-canary"})
        found = engine.inspect_container(sandbox.id)
        execs = [engine.exec_inspect(ident) for ident in found["ExecIDs"] or []]
        shown = json.dumps([found, execs])
        for canary in ("indigo-env", "hunter2-hunter2", "call-canary"):
            assert canary not in shown


async def test_image_with_another_python_compiles_the_guest_itself(
    backend: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, source = b"of no use there", GUEST_PROGRAM.read_bytes()
    # The second is too long to be there before the container starts to read it.
    for text in (source, source + b"#" * (4 << 20)):
        sizes = b"".join(len(part).to_bytes(4, "big") for part in (compiled, text))
        program = b"\0\0\r\n" + sizes + compiled + text
        monkeypatch.setattr("sandboxio_docker._provision.guest_program", lambda sent=program: sent)
        async with await backend.create(timeout=60) as sandbox:
            assert (await sandbox.run("echo it runs")).stdout == "it runs\n"


async def test_policy_is_what_the_engine_and_the_kernel_say(
    engine: Any, either: DockerBackend
) -> None:
    async with await either.create(
        timeout=60, resources=Resources(cpu=0.5, memory_mb=200, processes=99)
    ) as sandbox:
        policy = sandbox.policy
        caps = (policy.cpu, policy.memory_mb, policy.processes)
        assert [cap and (cap.value, cap.verified) for cap in caps] == [
            (0.5, True),
            (200, True),
            (99, True),
        ]
        assert (policy.isolation, policy.network, policy.network_verified, policy.lifetime_s) == (
            IsolationTier.CONTAINER,
            NetworkPolicy(),
            True,
            60,
        )
        config = engine.inspect_container(sandbox.id)["HostConfig"]
        assert config["MemorySwap"] == config["Memory"] == 200 * 1024 * 1024
        assert (config["CapDrop"], config["CapAdd"], config["Privileged"]) == (["ALL"], None, False)
        assert config["SecurityOpt"] == ["no-new-privileges"]
        status = (await sandbox.run(["cat", "/proc/self/status"])).stdout
        assert "CapEff:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status


async def test_egress_is_the_bridge_when_it_is_allowed(engine: Any, backend: DockerBackend) -> None:
    async with await backend.create(timeout=60, network=NetworkPolicy(egress="allow")) as sandbox:
        assert engine.inspect_container(sandbox.id)["HostConfig"]["NetworkMode"] == "bridge"
        assert sandbox.policy.network.egress == "allow"


async def test_what_docker_cannot_enforce_is_refused(backend: DockerBackend) -> None:
    with pytest.raises(CapabilityNotSupported):
        await backend.create(network=NetworkPolicy(allow=("example.org",)))
    with pytest.raises(CapabilityNotSupported):
        await backend.create(resources=Resources(disk_mb=10))


async def test_runtime_that_the_engine_does_not_have_is_refused(engine: Any) -> None:
    seen = {item["Id"] for item in engine.containers(all=True)}
    with (
        pytest.warns(UnverifiedIsolationWarning),
        pytest.raises(ConfigurationError, match="nonsense"),
    ):
        await DockerBackend(image=PYTHON_IMAGE, runtime="nonsense").create()
    mine = engine.containers(all=True, filters={"label": f"io.sandboxio.session={os.getpid()}"})
    assert {item["Id"] for item in mine} <= seen


async def test_removed_container_is_gone_in_every_call(engine: Any, either: DockerBackend) -> None:
    sandbox = await either.create(timeout=60)
    async with anyio.create_task_group() as group:

        async def busy() -> None:
            with pytest.raises(SandboxGone):
                await sandbox.run(["sleep", "60"])

        group.start_soon(busy)
        async with sandbox.stream("echo started; sleep 60") as process:
            async for _ in process:
                break
            engine.remove_container(sandbox.id, force=True)
            with pytest.raises(SandboxGone):
                await process.wait()
    with pytest.raises(SandboxGone):
        await sandbox.files.read("x")
    await sandbox.kill()
