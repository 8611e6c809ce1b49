"""Engines that are not behind a socket of this machine: over TLS, and over ssh."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from docker_engine import Engine
from dockerd import BUSYBOX_IMAGE, PYTHON_IMAGE

pytestmark = [pytest.mark.docker, pytest.mark.slow]

BOUND = 100.0
"""Seconds for what takes a few; the machine may be busy."""

PROGRAM = """
import os, sys, anyio
from sandboxio.errors import SandboxError
from sandboxio_docker import DockerBackend
import sandboxio._engine.backend as bounds

bounds.HEALTH_BOUND = 60  # a busy machine may take longer to log in, twice

async def main(image):
    backend = DockerBackend(image=image)
    health = await backend.health()
    print("health", health.ok, health.detail)
    data = os.urandom(3 << 20)
    try:
        async with await backend.create(timeout=90) as sandbox:
            print((await sandbox.run("cat; echo", stdin="over the wire")).stdout, end="")
            await sandbox.files.write("large", data)
            print("same", await sandbox.files.read("large") == data)
            async with sandbox.stream("for i in 1 2 3; do echo $i; done") as process:
                print("stream", b"".join([chunk.data async for chunk in process]))
            async with await DockerBackend().connect(sandbox.id) as joined:
                print("joined", (await joined.run(["pwd"])).stdout.strip())
    except SandboxError as error:
        print(type(error).__name__, error.message)

anyio.run(main, sys.argv[1], backend=sys.argv[2])
"""

SAID = ["over the wire", "same True", "stream b'1\\n2\\n3\\n'", "joined /work"]


def say(prefix: list[str], image: str, loop: str, **env: str) -> list[str]:
    """Run the program, and return what it said, line by line."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
    done = subprocess.run(
        [*prefix, sys.executable, "-W", "error", "-c", PROGRAM, image, loop],
        env={**plain, **env},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


# ----- TLS


@pytest.fixture(scope="module")
def secured(
    root: None,
    need: Callable[[str], None],
    certificates: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[Engine, None, None]:
    """An engine of its own that wants a certificate, in a network of its own."""
    need("ip")
    folder, ours = tmp_path_factory.mktemp("t"), certificates["ours"]
    engine = Engine(folder, host=f"unix://{folder}/d.sock", private=True)
    engine.arguments += ["--host", "tcp://127.0.0.1:2376", "--tlsverify"]
    engine.arguments += [f"--tlscacert={ours}/ca.pem", f"--tlscert={ours}/server-cert.pem"]
    engine.arguments += [f"--tlskey={ours}/server-key.pem"]
    engine.start()
    try:
        images = [PYTHON_IMAGE, BUSYBOX_IMAGE]
        saved = subprocess.run(["docker", "save", *images], check=True, capture_output=True)
        engine.docker("load", stdin=saved.stdout)
        yield engine
    finally:
        engine.stop()


@pytest.mark.parametrize("image", [PYTHON_IMAGE, BUSYBOX_IMAGE], ids=["guest", "exec"])
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_engine_that_verifies_certificates(
    secured: Engine, certificates: dict[str, Path], image: str, loop: str
) -> None:
    inside = ["nsenter", f"--net=/proc/{secured.pid()}/ns/net"]
    host, tls = "tcp://127.0.0.1:2376", {"DOCKER_TLS_VERIFY": "1"}
    ours = str(certificates["ours"])
    said = say(inside, image, loop, DOCKER_HOST=host, DOCKER_CERT_PATH=ours, **tls)
    assert said[0].startswith("health True ")
    assert said[1:] == SAID
    assert secured.docker("ps", "--all", "--quiet") == ""


@pytest.mark.parametrize(
    "env",
    [{"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "strange"}, {}],
    ids=["of-a-stranger", "in-the-clear"],
)
def test_engine_that_does_not_take_us_is_named(
    secured: Engine, certificates: dict[str, Path], env: dict[str, str]
) -> None:
    inside = ["nsenter", f"--net=/proc/{secured.pid()}/ns/net"]
    env = {k: str(certificates.get(v, v)) for k, v in env.items()}
    said = say(inside, PYTHON_IMAGE, "asyncio", DOCKER_HOST="tcp://127.0.0.1:2376", **env)
    assert said[0].startswith("health False ")
    assert said[1].startswith("SandboxUnreachable ")
    assert "tcp://127.0.0.1:2376 (from DOCKER_HOST)" in said[1]


# ----- ssh

WITHOUT_A_NETWORK = """#!/bin/sh
# What the far side of ssh does, without the way there.
for command; do :; done
echo "$*" >> "$SSH_LOG"
unset DOCKER_HOST  # the far side has an environment of its own
exec $command
"""


@pytest.mark.parametrize("image", [PYTHON_IMAGE, BUSYBOX_IMAGE], ids=["guest", "exec"])
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_engine_behind_ssh_is_asked_as_the_docker_cli_asks(
    tmp_path: Path, image: str, loop: str
) -> None:
    program = tmp_path / "ssh"
    program.write_text(WITHOUT_A_NETWORK)
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SSH_LOG": str(tmp_path / "log")}
    said = say([], image, loop, DOCKER_HOST="ssh://somebody@far.example:2222", **env)
    assert said[0].startswith("health True ")
    assert said[1:] == SAID
    calls = (tmp_path / "log").read_text().splitlines()
    assert calls
    for call in calls:
        assert call.endswith("docker system dial-stdio")
        for part in ("somebody", "far.example", "2222"):
            assert part in call


SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


@pytest.fixture
def ssh_server(root: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A real one on loopback, with keys that are thrown away; what finds it is in the environment."""
    if not Path(SSHD).exists() or not shutil.which("ssh-keygen"):
        pytest.skip("sshd: not installed")
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(key, check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    config = folder / "sshd_config"
    config.write_text(
        f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\nStrictModes no\n"
        "ListenAddress 127.0.0.1\nPidFile none\nUsePAM no\nPermitRootLogin prohibit-password\n"
        "PasswordAuthentication no\nMaxStartups 100\n"
    )
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    # As inetd would, one for each connection: no port, and nothing that stays.
    wrapper = folder / "ssh"
    wrapper.write_text(
        f"#!/bin/sh\nexec {shutil.which('ssh')} -F none -o IdentityFile={folder}/user "
        f"-o UserKnownHostsFile={folder}/known -o StrictHostKeyChecking=no -o LogLevel=ERROR "
        f"-o 'ProxyCommand={SSHD} -i -f {config}' \"$@\"\n"
    )
    wrapper.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_engine_behind_a_real_ssh_server(ssh_server: dict[str, str]) -> None:
    host = "ssh://root@engine.example"
    said = say([], PYTHON_IMAGE, "trio", DOCKER_HOST=host, **ssh_server)
    assert said[0].startswith("health True "), said
    assert said[1:] == SAID
