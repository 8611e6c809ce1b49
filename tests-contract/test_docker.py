"""The contract, kept by the Docker backend: with each runtime that the engine has, and without Python."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection
from typing import Any, Literal

import docker
import docker.errors
import pytest

import dockerd
from dockerd import BUSYBOX_IMAGE, PYTHON_IMAGE
from sandboxio_docker import DockerBackend
from sandboxio_testing.suite import BackendContract, ProviderFacts

LABEL = "io.sandboxio."

DOCS = "https://docs.sandboxio.dev/how-to/docker/"

# The suite reaches out with a Python program, which this image cannot run: nothing is shown either way.
# That there is no network is seen by the clauses that ask the engine and the kernel.
PROBES_NEED_PYTHON = dict.fromkeys(
    (
        "network.deny-loopback",
        "network.deny-host",
        "network.deny-ipv6",
        "network.deny-udp",
        "network.deny-metadata",
        "network.deny-abstract",
        "network.own-loopback",
        "network.apart",
        "network.allow",
    ),
    f"{DOCS}#how-it-works",
)

# What leaves its command by setsid and a double fork outlives the kill where gVisor has no child
# subreapers; and a cap ends the whole sandbox. The three about files look with the image's own ls and
# stat, which get no answer from that gVisor.
GVISOR_GAPS = dict.fromkeys(
    (
        "caps.memory::test_memory_cap_holds",
        "caps.processes::test_process_cap_holds",
        "stream.left::test_leaving_the_block_ends_the_command",
        "stream.error::test_exception_in_the_block_ends_the_command",
        "stream.cancelled::test_cancellation_in_the_block_ends_the_command",
        "stream.kill::test_kill_ends_the_command",
        "timeout.tree::test_timeout_ends_the_whole_tree",
        "cancel.run::test_cancelled_run_leaves_no_process",
        "files.keeps-mode::test_overwriting_keeps_the_mode",
        "files.remove-link::test_remove_of_a_link_keeps_its_target",
        "files.atomic-write::test_cancelled_write_leaves_the_old_content",
    ),
    f"{DOCS}#gvisor",
)

# A container that is being removed is listed for a moment longer.
SETTLE_SECONDS = 5.0


class EngineWitness:
    """Asks the Engine API, with a client of its own."""

    def __init__(self) -> None:
        self._client: Any = docker.DockerClient(version="auto", timeout=30)
        self._api: Any = self._client.api

    def sandboxes(self) -> Collection[str]:
        """Containers of this process, and those that say nothing of whose they are."""
        listed = self._api.containers(all=True)
        ours: list[str] = []
        for container in listed:
            labels = container["Labels"] or {}
            mine = labels.get(f"{LABEL}session") == str(os.getpid())
            of_ours = container["Image"] in (PYTHON_IMAGE, BUSYBOX_IMAGE)
            unlabelled = of_ours and not any(key.startswith(LABEL) for key in labels)
            if (mine or unlabelled) and container["State"] != "removing":
                ours.append(container["Id"])
        return ours

    def processes(self, sandbox_id: str, marker: str) -> int:
        """Looked for in the container's own /proc: what the engine lists of gVisor is not there."""
        script = "for p in /proc/[0-9]*; do tr '\\0\\n' '  ' < $p/cmdline; echo; done 2>/dev/null"
        try:
            made = self._api.exec_create(sandbox_id, ["/bin/sh", "-c", script])
            listed = self._api.exec_start(made["Id"]).decode("utf-8", "replace")
        except docker.errors.APIError:
            return 0
        return sum(marker in line for line in listed.splitlines())

    def facts(self, sandbox_id: str) -> ProviderFacts:
        """What ``docker inspect`` shows, of the container and of its execs."""
        found = self._api.inspect_container(sandbox_id)
        config = found["HostConfig"]
        labels = found["Config"]["Labels"]
        execs = [self._api.exec_inspect(ident) for ident in found.get("ExecIDs") or []]
        modes: dict[str, Literal["none", "host"]] = {"none": "none", "host": "host"}
        hosts = [config[key] for key in ("PidMode", "UTSMode", "UsernsMode", "CgroupnsMode")]
        return ProviderFacts(
            network=modes.get(config["NetworkMode"], "own"),
            privileged=bool(
                config["Privileged"]
                or config["CapAdd"]
                or config["IpcMode"] == "host"
                or "host" in hosts[:3]
            ),
            host_paths=tuple(config["Binds"] or ())
            + tuple(mount["Source"] for mount in found["Mounts"]),
            memory_mb=config["Memory"] / (1024 * 1024),
            processes=config["PidsLimit"],
            cpu=config["NanoCpus"] / 1e9,
            labels={
                key.removeprefix(f"{LABEL}meta."): value
                for key, value in labels.items()
                if key.startswith(f"{LABEL}meta.")
            },
            description=json.dumps([found, execs]),
        )

    def destroy(self, sandbox_id: str) -> None:
        """As an administrator would."""
        end = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < end:
            try:
                self._api.remove_container(sandbox_id, force=True, v=True)
            except docker.errors.NotFound:
                return
            except docker.errors.APIError:
                time.sleep(0.05)  # somebody else is removing it


def nobody() -> DockerBackend:
    """A backend whose engine does not answer."""
    return DockerBackend(image=PYTHON_IMAGE, host="unix:///nonexistent/docker.sock")


def runtimes() -> Collection[str]:
    """Runtimes of the engine, if one answers; asked without docker-py, which then leaves a socket."""
    answer = dockerd.get("/info")
    return tuple(json.loads(answer)["Runtimes"]) if answer else ()


needs_runsc = pytest.mark.skipif(
    not dockerd.promised() and "runsc" not in runtimes(),
    reason="runsc: the engine has no gVisor runtime",
)


@pytest.mark.docker
class TestDocker(BackendContract):
    """The engine's default runtime, and an image with Python."""

    witness = EngineWitness
    unreachable = nobody

    @staticmethod
    def backend() -> DockerBackend:
        return DockerBackend(image=PYTHON_IMAGE)


@pytest.mark.docker
class TestDockerWithoutPython(BackendContract):
    """An image that has BusyBox and nothing else."""

    witness = EngineWitness
    unreachable = nobody
    known_gaps = PROBES_NEED_PYTHON

    @staticmethod
    def backend() -> DockerBackend:
        return DockerBackend(image=BUSYBOX_IMAGE, guest="never")


@pytest.mark.docker
@needs_runsc
class TestDockerGvisor(BackendContract):
    """gVisor as the runtime."""

    witness = EngineWitness
    unreachable = nobody
    known_gaps = GVISOR_GAPS
    short_lifetime = 6.0

    @staticmethod
    def backend() -> DockerBackend:
        return DockerBackend(image=PYTHON_IMAGE, runtime="runsc")
