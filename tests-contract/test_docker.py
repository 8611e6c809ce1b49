"""The contract, kept by the Docker backend: with each runtime that the engine has, and without Python."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Generator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import docker
import docker.errors
import pytest

import docker_proxy
import dockerd
from dockerd import BUSYBOX_IMAGE, PYTHON_IMAGE
from sandboxio.audit import AuditConfig
from sandboxio_docker import DockerBackend
from sandboxio_testing.suite import BackendContract, Probes, ProviderFacts

LABEL = "io.sandboxio."

Guest = Literal["auto", "never"]

DOCS = "https://docs.sandboxio.dev/how-to/docker/"

# What BusyBox cannot speak (datagrams, abstract sockets) is not reached where there is no way to it: no
# route and no such socket in the probe's own network namespace. Where there is one, Python speaks
# it, as outside; without Python the way itself counts as reached.
_REACH = """
kind=$1 host=$2 port=$3 token=$4 python=$5
no() { echo "not reached: $1"; exit 9; }
ask() { printf %s "$token" | timeout 5 busybox nc -w 3 "$host" "$port" 2>/dev/null; }
speak() {
  command -v python3 >/dev/null || { echo reached; exit 0; }
  exec python3 -c "$python" "$kind" "$host" "$port" "$token"
}
case $kind in
  tcp)
    answer=$(ask) || no refused
    [ "$answer" = "$token" ] || no "another answer"
    ;;
  connect) ask >/dev/null || no refused ;;
  name) timeout 10 busybox nslookup "$host" >/dev/null 2>&1 || no unknown ;;
  abstract)
    grep -q -F "@$host" /proc/net/unix || no "no such socket here"
    speak
    ;;
  udp)
    number=$(printf ':%04X ' "$port")
    [ "$(wc -l < /proc/net/route)" -gt 1 ] || grep -q "$number" /proc/net/udp || no "no way"
    speak
    ;;
esac
echo reached
"""

_SERVE = """
busybox nc -ll -p 7007 -e cat &
until grep -q ':1B5F 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done
echo 7007 > "$1.new" && mv "$1.new" "$1"
wait
"""


class BusyBoxProbes(Probes):
    """Probes of the network for an image without Python."""

    def reach(self, kind: str, host: str, port: int, token: str) -> list[str]:
        python = super().reach(kind, host, port, token)[2]
        return ["/bin/sh", "-c", _REACH, "probe", kind, host, str(port), token, python]

    def serve(self, path: str) -> list[str]:
        return ["/bin/sh", "-c", _SERVE, "probe", path]

    def open_raw_socket(self) -> list[str]:
        script = "busybox ping -c 1 -W 1 127.0.0.1 >/dev/null 2>&1 || exit 9; echo opened"
        return ["/bin/sh", "-c", script]


class PythonProbes(Probes):
    """Probes of files for a kernel without `statx`, which the image's ls and stat insist on."""

    def mode_of(self, path: str) -> list[str]:
        script = "import os, sys; print(f'{os.stat(sys.argv[1]).st_mode & 0o7777:o}')"
        return ["python3", "-c", script, path]

    def list_names(self, directory: str) -> list[str]:
        script = "import os, sys; [print(name) for name in os.listdir(sys.argv[1])]"
        return ["python3", "-c", script, directory]


# The shell, which is what starts commands there, drops these; they are refused instead.
SHELL_GAPS = {"env.odd-names": f"{DOCS}#how-it-works"}

# A cap ends the whole sandbox there, not one process of it.
GVISOR_GAPS = dict.fromkeys(
    (
        "caps.memory::test_memory_cap_holds",
        "caps.processes::test_process_cap_holds",
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


PROXIES = Path(tempfile.gettempdir(), f"sbx-proxies-{os.getpid()}")
"""Where the engines are that fail."""


def failing(manner: docker_proxy.Manner, image: str, guest: Guest) -> Callable[[], DockerBackend]:
    """What makes a backend whose engine is silent, refuses or never confirms."""
    return lambda: DockerBackend(image=image, guest=guest, host=f"unix://{PROXIES}/{manner}")


@pytest.fixture(scope="module", autouse=True)
def engines_that_fail() -> Generator[None, None, None]:
    """Each of them, as long as these tests run."""
    if dockerd.missing():
        yield
        return
    PROXIES.mkdir()
    try:
        with docker_proxy.proxies(PROXIES), pytest.MonkeyPatch.context() as patch:
            # On a busy machine the engine needs more than five seconds to remove a container.
            patch.setenv("SBX_TEARDOWN_GRACE", "20")
            yield
    finally:
        shutil.rmtree(PROXIES)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left() -> Generator[None, None, None]:
    """All that these tests made is gone. Images they make none."""
    if dockerd.missing():
        yield
        return
    before = belongings()
    yield
    end = time.monotonic() + SETTLE_SECONDS
    while (left := belongings() - before) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left


def belongings() -> set[str]:
    """What the engine has that could be of these tests."""
    with closing(docker.DockerClient(version="auto", timeout=30)) as client:
        api: Any = client.api
        mine = {"label": f"{LABEL}session={os.getpid()}"}
        return {
            *(f"container {item['Id']}" for item in api.containers(all=True, filters=mine)),
            *(f"network {item['Name']}" for item in api.networks()),
            *(f"volume {item['Name']}" for item in api.volumes()["Volumes"] or ()),
        }


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
    silent = staticmethod(failing("silent", PYTHON_IMAGE, "auto"))
    refusing = staticmethod(failing("refusing", PYTHON_IMAGE, "auto"))
    stuck = staticmethod(failing("stuck", PYTHON_IMAGE, "auto"))
    short_lifetime = 5.0

    @staticmethod
    def backend() -> DockerBackend:
        return DockerBackend(image=PYTHON_IMAGE)

    @staticmethod
    def audited(*, audit: AuditConfig) -> DockerBackend:
        return DockerBackend(image=PYTHON_IMAGE, audit=audit)


@pytest.mark.docker
class TestDockerWithoutPython(BackendContract):
    """An image that has BusyBox and nothing else."""

    # What the loops differ in is the same code here as in the class above, and each command takes
    # several execs.
    loops = ("asyncio",)
    witness = EngineWitness
    unreachable = nobody
    silent = staticmethod(failing("silent", BUSYBOX_IMAGE, "never"))
    refusing = staticmethod(failing("refusing", BUSYBOX_IMAGE, "never"))
    stuck = staticmethod(failing("stuck", BUSYBOX_IMAGE, "never"))
    short_lifetime = 8.0
    probes = BusyBoxProbes()
    known_gaps = SHELL_GAPS

    @staticmethod
    def backend() -> DockerBackend:
        return DockerBackend(image=BUSYBOX_IMAGE, guest="never")

    @staticmethod
    def audited(*, audit: AuditConfig) -> DockerBackend:
        return DockerBackend(image=BUSYBOX_IMAGE, guest="never", audit=audit)


@pytest.mark.docker
@pytest.mark.timeout(300)
@needs_runsc
class TestDockerGvisor(BackendContract):
    """gVisor as the runtime."""

    witness = EngineWitness
    unreachable = nobody
    probes = PythonProbes()
    known_gaps = GVISOR_GAPS
    # Everything takes several times as long there; see above.
    loops = ("trio",)
    short_lifetime = 6.0
    many = 4
    bound = 240.0

    @staticmethod
    def backend() -> DockerBackend:
        return DockerBackend(image=PYTHON_IMAGE, runtime="runsc")

    @staticmethod
    def audited(*, audit: AuditConfig) -> DockerBackend:
        return DockerBackend(image=PYTHON_IMAGE, runtime="runsc", audit=audit)
