"""Routing over real backends: a Docker engine that stops, fills up or hangs, E2B, and local."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import docker_engine
import dockerd
import sandboxio
from sandboxio.errors import (
    AuthError,
    ConfigurationError,
    CreateTimeout,
    CreationError,
    NoRoute,
    OrphanedSandboxWarning,
    SandboxUnreachable,
)
from sandboxio.models import Capability, IsolationTier
from sandboxio.routing import Router, RouteRequest, RouterTuning

IMAGE = dockerd.BUSYBOX_IMAGE
LIFETIME = 120.0

local_is_here = pytest.mark.skipif(
    shutil.which("true") is None or not Path("/proc/self/ns/user").exists(),
    reason="local: this kernel has no user namespaces",
)


def router_over(
    backends: dict[str, dict[str, object]], *, tuning: RouterTuning | None = None
) -> Router:
    """The first entry is preferred; any container may stand in."""
    first = next(iter(backends))
    return Router.from_dict(
        {
            "backends": backends,
            "isolation_classes": {"standard": {"backend": first, "isolation": "container"}},
            "default_class": "standard",
        },
        tuning=tuning,
    )


def docker_entry(host: str, **more: object) -> dict[str, object]:
    return {"adapter": "docker", "image": IMAGE, "host": host, "pull": "never", **more}


LOCAL: dict[str, object] = {"adapter": "local"}


def reason(sandbox: Any, name: str) -> str:
    return next(one.reason for one in sandbox.route.candidates if one.name == name)


# --- local ----------------------------------------------------------------------------------------


@pytest.fixture
def local() -> None:
    pytest.importorskip("sandboxio_local._plugin", reason="sandboxio-local is not installed")


@pytest.mark.usefixtures("local")
async def test_a_real_sandbox_knows_its_route_and_runs() -> None:
    router = router_over({"here": LOCAL})
    async with await router.create(
        labels={"tool": "x"}, needs=Capability.STREAMING, timeout=LIFETIME
    ) as sandbox:
        assert (sandbox.route.taken, sandbox.backend) == ("here", "local")
        assert (await sandbox.run(["echo", "hello"])).stdout == "hello\n"


@pytest.mark.usefixtures("local")
async def test_nothing_fails_over_after_the_first_command(
    stage: Callable[..., Any], driver: Any
) -> None:
    other = stage([driver("other")])
    router = router_over({"here": LOCAL, "other": {"adapter": other.adapters["other"]}})
    async with await router.create(timeout=LIFETIME) as sandbox:
        assert (await sandbox.run(["true"])).ok
        await sandbox.kill()
        with pytest.raises(sandboxio.SandboxGone):
            await sandbox.run(["true"])
    assert other.created == []
    assert router.status()[0].failures == 0


@pytest.mark.usefixtures("local")
async def test_a_template_that_is_none_is_raised_and_not_hidden(
    stage: Callable[..., Any], driver: Any
) -> None:
    other = stage([driver("other")])
    router = router_over({"here": LOCAL, "other": {"adapter": other.adapters["other"]}})
    with pytest.raises((ConfigurationError, CreationError)):
        await router.create(template="relative/path", timeout=LIFETIME)
    assert other.created == []


# --- Docker ---------------------------------------------------------------------------------------


THREADS_BOUND = 1.0
"""Seconds for threads to notice that their connection has ended; idle workers stay."""


class SilentDaemon:
    """Accepts every connection, reads what comes, and never answers."""

    def __init__(self, path: str) -> None:
        self.accepted = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._open.append(connection)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)  # it may have one more to note
        for connection in self._open:
            connection.close()


@pytest.fixture
def docker() -> None:
    pytest.importorskip("sandboxio_docker._plugin", reason="sandboxio-docker is not installed")


@pytest.fixture
def silent(docker: None) -> Iterator[tuple[SilentDaemon, str]]:
    with tempfile.TemporaryDirectory(prefix="sbx-silent-") as folder:
        path = f"{folder}/docker.sock"
        before = set(threading.enumerate())
        daemon = SilentDaemon(path)
        yield daemon, f"unix://{path}"
        daemon.close()
        # Who waited for an answer has an end of file now. The Docker SDK leaves the socket of a
        # client that could not be made to the collector, which must not blame the next test.
        end = time.monotonic() + THREADS_BOUND
        for thread in set(threading.enumerate()) - before:
            thread.join(max(0, end - time.monotonic()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


HEALTH_AND_MORE = 60.0
"""Seconds; a health check has two of them, and this machine may be busy."""


@pytest.mark.usefixtures("local")
async def test_a_hanging_daemon_is_unhealthy_in_time_and_the_next_is_taken(
    silent: tuple[SilentDaemon, str],
) -> None:
    daemon, host = silent
    router = router_over({"docker": docker_entry(host), "here": LOCAL})
    with anyio.fail_after(HEALTH_AND_MORE):
        sandbox = await router.create(timeout=LIFETIME)
    async with sandbox:
        assert sandbox.route.taken == "here"
    assert daemon.accepted > 0
    assert reason(sandbox, "docker").startswith("unhealthy: ")


async def test_a_daemon_that_hangs_when_it_creates_is_bounded_by_the_timeout(
    silent: tuple[SilentDaemon, str],
) -> None:
    daemon, host = silent
    router = router_over({"docker": docker_entry(host)})
    with warnings.catch_warnings(), anyio.fail_after(HEALTH_AND_MORE):
        # A silent daemon may be unable to confirm that nothing is left; that is no matter here.
        warnings.simplefilter("ignore", OrphanedSandboxWarning)
        with pytest.raises((CreateTimeout, SandboxUnreachable)):
            # A pin skips the health check, so the create itself meets the silence.
            await router.create(backend="docker", timeout=1)
    assert daemon.accepted > 0


async def test_all_down_says_so_of_each(silent: tuple[SilentDaemon, str], tmp_path: Path) -> None:
    router = router_over(
        {
            "silent": docker_entry(silent[1]),
            "gone": docker_entry(f"unix://{tmp_path}/none.sock"),
            "refused": docker_entry("tcp://127.0.0.1:9"),
        }
    )
    with anyio.fail_after(HEALTH_AND_MORE), pytest.raises(NoRoute) as caught:
        await router.create(timeout=LIFETIME)
    decision = caught.value.decision
    assert decision is not None
    assert {one.name for one in decision.candidates} == {"silent", "gone", "refused"}
    assert all(one.reason.startswith("unhealthy: ") for one in decision.candidates)


@pytest.fixture
def small_engine(docker: None) -> Iterator[tuple[docker_engine.Engine, Path]]:
    """A Docker engine of its own on a disk of 64 MiB, with one image."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("docker: an engine of its own needs root and dockerd")
    images = docker_engine.Engine(docker_engine.RUN_FOLDER)
    if not images.has_image(IMAGE):
        pytest.skip(f"docker: this machine's engine has no {IMAGE}: tools/docker_engine.py images")
    saved = subprocess.run(["docker", "save", IMAGE], capture_output=True, check=True).stdout
    folder = Path(tempfile.mkdtemp(prefix="sbx-routing-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
        engine = docker_engine.Engine(
            folder / "engine", host=f"unix://{folder}/docker.sock", private=True
        )
        try:
            with warnings.catch_warnings():
                # The daemon outlives the object that started it; the fixture stops it by its pid.
                warnings.simplefilter("ignore", ResourceWarning)
                engine.start()
            engine.docker("load", stdin=saved)
            yield engine, folder
        finally:
            engine.stop()
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        folder.rmdir()


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.usefixtures("local")
async def test_docker_that_stops_between_health_and_create_is_left_for_local(
    small_engine: tuple[docker_engine.Engine, Path],
) -> None:
    engine, _ = small_engine
    router = router_over(
        {"docker": docker_entry(engine.host), "here": LOCAL}, tuning=RouterTuning(health_fresh=600)
    )
    decision = await router.examine(RouteRequest())
    assert decision.taken == "docker"
    assert "healthy: Docker Engine" in decision.candidates[0].reason
    assert await anyio.to_thread.run_sync(engine.stop)
    assert router.explain().taken == "docker"  # by what it last said
    async with await router.create(timeout=LIFETIME) as sandbox:
        assert sandbox.route.taken == "here"
        assert (await sandbox.run(["echo", "still here"])).stdout == "still here\n"
    failed = sandbox.route.candidates[0]
    assert (failed.name, failed.outcome) == ("docker", "failed")
    assert "SandboxUnreachable" in failed.reason
    assert "Remains: " in failed.reason


def fill(path: Path) -> None:
    """Write until the disk is full."""
    full = False
    with path.open("wb", buffering=0) as file:
        while not full:
            try:
                file.write(bytes(1 << 16))
            except OSError as error:
                full = error.errno == errno.ENOSPC
                if not full:
                    raise


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.usefixtures("local")
async def test_a_full_docker_disk_is_left_for_local_and_used_again_when_there_is_room(
    small_engine: tuple[docker_engine.Engine, Path],
) -> None:
    engine, folder = small_engine
    router = router_over({"docker": docker_entry(engine.host), "here": LOCAL})
    filler = folder / "filler"
    fill(filler)
    async with await router.create(timeout=LIFETIME) as sandbox:
        assert sandbox.route.taken == "here"
    assert "[SBX_E1405] DiskFull" in reason(sandbox, "docker")
    assert "which is confirmed" in reason(sandbox, "docker")
    assert engine.docker("ps", "--all", "--quiet") == ""
    filler.unlink()
    async with await router.create(timeout=LIFETIME) as sandbox:
        assert sandbox.route.taken == "docker"
        assert (await sandbox.run(["echo", "room"])).stdout == "room\n"


# --- E2B ------------------------------------------------------------------------------------------


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An E2B of our own, which can be told to fail."""
    reason = "sandboxio-e2b or the local E2B of sandboxio-testing is not installed"
    pytest.importorskip("sandboxio_e2b._backend", reason=reason)
    e2b = pytest.importorskip("sandboxio_testing.e2b", reason=reason)
    with e2b.LocalE2B() as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        yield server


CLOUD: dict[str, object] = {"adapter": "e2b", "api_key": "os.environ/E2B_API_KEY"}
CREATE = "POST /v2/sandboxes"


@pytest.mark.slow
async def test_a_throttling_e2b_is_left_for_the_next_for_as_long_as_it_asked(
    cloud: Any, stage: Callable[..., Any], driver: Any
) -> None:
    from sandboxio_testing.e2b import Fault

    other = stage([driver("other")])
    router = router_over({"cloud": CLOUD, "other": {"adapter": other.adapters["other"]}})
    cloud.add(Fault(route=CREATE, times=1000, status=429, headers={"Retry-After": "60"}))
    sandbox: Any = await router.create(timeout=LIFETIME)
    assert sandbox.route.taken == "other"
    assert "[SBX_E1502] RateLimitError" in reason(sandbox, "cloud")
    status = router.status()[0]
    assert (status.circuit, cloud.sandboxes) == ("open", [])
    assert 0 < (status.opens_in or 0) <= 60


@pytest.mark.slow
async def test_the_ghost_of_a_lost_reply_is_gone_before_the_next_is_tried(
    cloud: Any, stage: Callable[..., Any], driver: Any
) -> None:
    from sandboxio_testing.e2b import Fault

    witnessed: list[list[str]] = []

    class Watching(driver):  # type: ignore[misc]
        async def provision(self, request: Any) -> Any:
            witnessed.append(list(cloud.sandboxes))
            return await super().provision(request)

    other = stage([Watching("other")])
    router = router_over({"cloud": CLOUD, "other": {"adapter": other.adapters["other"]}})
    cloud.add(Fault(route=CREATE, times=1000, drop="head"))
    sandbox: Any = await router.create(timeout=LIFETIME)
    assert sandbox.route.taken == "other"
    # The service did serve it: there was a ghost to be reaped, and its own list says it is gone.
    assert any(seen.path.endswith("/sandboxes") and seen.method == "POST" for seen in cloud.seen())
    assert any(seen.method == "DELETE" for seen in cloud.seen())
    assert witnessed == [[]]
    assert cloud.sandboxes == []
    assert "nothing is left of sbx-" in reason(sandbox, "cloud")


@pytest.mark.slow
async def test_a_refused_e2b_key_is_raised_and_not_hidden(
    cloud: Any, stage: Callable[..., Any], driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("E2B_API_KEY", "e2b_" + "0" * 40)
    other = stage([driver("other")])
    router = router_over({"cloud": CLOUD, "other": {"adapter": other.adapters["other"]}})
    with pytest.raises(AuthError):
        await router.create(timeout=LIFETIME)
    assert other.created == []


@pytest.mark.slow
async def test_e2b_and_local_in_one_file_go_where_the_labels_say(cloud: Any, local: None) -> None:
    router = Router.from_dict(
        {
            "backends": {"cloud": CLOUD, "here": LOCAL},
            "isolation_classes": {
                "trusted": {"backend": "here"},
                "cloudy": {"backend": "cloud", "isolation": "container"},
            },
            "routes": [{"match": {"tool": "run_python"}, "class": "cloudy"}],
            "default_class": "trusted",
        }
    )
    for labels, expected in (({"tool": "run_python"}, "e2b"), ({}, "local")):
        async with await router.create(labels=labels, timeout=LIFETIME) as sandbox:
            assert sandbox.backend == expected
            assert (await sandbox.run(["echo", "hi"])).stdout == "hi\n"
    with pytest.raises(NoRoute):
        await router.create(require_isolation=IsolationTier.MICROVM, timeout=LIFETIME)
