"""What `sandboxio doctor` is told about an engine.

The engine is asked without the SDK, over one connection that is given up in time: the SDK would wait
for an engine that hangs for a minute, and hold its lock meanwhile.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import anyio

from sandboxio.errors import SandboxError
from sandboxio.spi import Check

from ._config import DEFAULT_IMAGE, DockerConfig
from ._dial import dial
from ._endpoint import Endpoint, find_endpoint
from ._engine_info import EngineInfo, engine_info
from ._errors import CAPS_HINT, unreachable
from ._provision import lease_wanted
from ._runtime import check_runtime

__all__ = ["diagnose"]

ANSWER_BOUND = 1.2
"""Seconds for the engine's three answers; a healthy one takes a few hundredths of one."""

MAX_ANSWER = 4 << 20
"""Bytes of one answer; an engine's description of itself has some kilobytes."""

Json = dict[str, Any]

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i386": "386"}
"""How images name what the engine calls by the kernel's name."""


async def diagnose(config: DockerConfig) -> AsyncIterator[Check]:
    """Yield where the engine is and how that was found, and then what it says of itself."""
    try:
        endpoint = find_endpoint(config.host)
    except SandboxError as error:
        yield Check.failed("endpoint", error.message, error.hint)
        return
    yield Check.passed("endpoint", str(endpoint))
    if not lease_wanted():
        yield Check.note(
            "lease",
            "off: what a crashed program leaves behind lives until its lifetime is over",
            "unset SBX_DOCKER_REAPER",
        )
    try:
        version, info, image = await _asked(endpoint, config.template or DEFAULT_IMAGE)
    except SandboxError as error:
        yield Check.failed("engine", error.message, error.hint)
        return
    for check in _checks(config, version, info, image):
        yield check


async def _asked(endpoint: Endpoint, image: str) -> tuple[Json, Json, Json | None]:
    until = time.monotonic() + ANSWER_BOUND
    with anyio.move_on_after(ANSWER_BOUND):
        return await anyio.to_thread.run_sync(
            lambda: _ask(endpoint, image, until),
            abandon_on_cancel=True,
            # One of its own: those who hold the shared one may be waiting for this engine.
            limiter=anyio.CapacityLimiter(1),
        )
    raise unreachable(endpoint, TimeoutError(f"no answer within {ANSWER_BOUND:g} s"))


def _ask(endpoint: Endpoint, image: str, until: float) -> tuple[Json, Json, Json | None]:
    """Ask what the engine is, what it can do, and whether it has an image; blocks."""
    try:
        sock = dial(endpoint)
    except OSError as error:
        raise unreachable(endpoint, error) from error
    connection = http.client.HTTPConnection("docker")
    connection.sock = sock

    def get(path: str) -> Json | None:
        sock.settimeout(max(0.01, until - time.monotonic()))
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read(MAX_ANSWER)
        if answer.status == http.client.NOT_FOUND:
            return None
        found: object = json.loads(content)
        if answer.status != http.client.OK or not isinstance(found, dict):
            raise ConnectionError(f"it answered {answer.status} to {path}")
        return found  # pyright: ignore[reportUnknownVariableType]

    try:
        version, info = get("/version"), get("/info")
        if version is None or info is None:
            raise ConnectionError("what answers is no Docker Engine")
        return version, info, get(f"/images/{quote(image, safe='/:@')}/json")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise unreachable(endpoint, error) from error
    finally:
        connection.close()


def _checks(config: DockerConfig, version: Json, info: Json, image: Json | None) -> list[Check]:
    engine = engine_info(info, str(version.get("ApiVersion", "?")))
    oldest = version.get("MinAPIVersion", "?")
    return [
        Check.passed(
            "engine",
            f"{engine.version}, API {engine.api_version} (from {oldest} on), kernel "
            f"{info.get('KernelVersion', '?')}",
        ),
        _platform(engine),
        _cgroup(engine, info),
        _runtime(config, engine),
        *_confinement(info),
        _image(config, engine, image),
    ]


def _platform(engine: EngineInfo) -> Check:
    if engine.platform.startswith("linux/"):
        return Check.passed("platform", engine.platform)
    return Check.failed("platform", engine.platform, "Switch the engine to Linux containers.")


def _cgroup(engine: EngineInfo, info: Json) -> Check:
    driver = f"v{engine.cgroup_version} by {info.get('CgroupDriver', '?')}"
    if engine.missing_limits:
        missing = ", ".join(engine.missing_limits)
        return Check.failed("cgroup", f"{driver}; cannot cap {missing}", CAPS_HINT)
    return Check.passed("cgroup", f"{driver}; caps memory with swap, CPU and processes")


def _runtime(config: DockerConfig, engine: EngineInfo) -> Check:
    try:
        tier = check_runtime(config.runtime, engine.default_runtime, engine.runtimes)
    except SandboxError as error:
        return Check.failed("runtime", error.message, error.hint)
    name = config.runtime or engine.default_runtime
    others = ", ".join(other for other in engine.runtimes if other != name)
    more = f"; there are also {others}" if others else ""
    return Check.passed("runtime", f"{name}, isolation {tier.value}{more}")


def _confinement(info: Json) -> list[Check]:
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    names = {option.removeprefix("name=").partition(",")[0] for option in options}
    seccomp = (
        Check.passed("seccomp", "on")
        if "seccomp" in names
        else Check.note("seccomp", "off", "Use an engine that is built with seccomp.")
    )
    module = next((name for name in ("apparmor", "selinux") if name in names), None)
    confined = (
        Check.passed(module, "on")
        if module is not None
        else Check.note(
            "apparmor",
            "the engine confines containers neither with AppArmor nor with SELinux",
            "Switch one of them on on the engine's machine, and restart the engine.",
        )
    )
    if "rootless" in names:
        users = Check.passed("user namespaces", "in use: the engine itself is rootless")
    elif "userns" in names:
        users = Check.passed("user namespaces", "in use: users of containers are remapped")
    else:
        users = Check.note(
            "user namespaces",
            "not in use: root in a container, without its capabilities, is root to the kernel",
            "https://docs.docker.com/engine/security/userns-remap/ or a rootless engine",
        )
    return [seccomp, confined, users]


def _image(config: DockerConfig, engine: EngineInfo, image: Json | None) -> Check:
    name = config.template or DEFAULT_IMAGE
    if image is None:
        if config.pull == "never":
            return Check.failed(
                "image",
                f"the engine does not have {name}, and may not pull it",
                f"docker pull {name}",
            )
        return Check.note(
            "image", f"{name} is not there yet: the first sandbox pulls it", f"docker pull {name}"
        )
    built = f"{image.get('Os', '?')}/{image.get('Architecture', '?')}"
    system, _, machine = engine.platform.partition("/")
    if built != f"{system}/{ARCHITECTURES.get(machine, machine)}":
        return Check.note(
            "image",
            f"{name} is there for {built}, and the engine is {engine.platform}",
            f"docker pull {name}",
        )
    return Check.passed("image", f"{name} is there, for {built}")
