"""``egress="allow"``: out to the network, never to the host's loopback, and nothing in."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from sandboxio.errors import CapabilityNotSupported, CreationError
from sandboxio.models import NetworkPolicy
from sandboxio_local import _egress
from sandboxio_local._processes import alive
from sandboxio_local._sandbox import LocalSandbox

Run = Callable[..., Awaitable[Any]]
Make = Callable[..., Awaitable[LocalSandbox]]
Until = Callable[[Callable[[], bool]], Awaitable[None]]

HELPERS = ("pasta", "slirp4netns")


def usable(helper: str) -> bool:
    if shutil.which(helper) is None:
        return False
    return os.geteuid() == 0 or os.access("/dev/net/tun", os.R_OK | os.W_OK)


@pytest.fixture(params=HELPERS)
def helper(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    if not usable(name):
        pytest.skip(f"{name} cannot be used by this user here")
    which = shutil.which
    others = set(HELPERS) - {name}
    monkeypatch.setattr(shutil, "which", lambda word: None if word in others else which(word))
    return name


# A world of its own: this process's network namespace stands for the host, and another one, at the
# far end of a cable, for the internet.
WORLD = """
import json, os, socket, subprocess, sys
import anyio

def sh(text):
    subprocess.run(["sh", "-ec", text], check=True)

far = subprocess.Popen(
    ["unshare", "--net", sys.executable, "-c", '''
import socket, subprocess, sys
sys.stdin.readline()
subprocess.run(["sh", "-ec", "ip addr add 10.99.0.2/24 dev far; ip link set far up; ip link set lo up"])
server = socket.create_server(("10.99.0.2", 7000))
print("ready", flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"from afar")
    connection.close()
'''],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
sh("ip link set lo up; ip link add near type veth peer name far; ip addr add 10.99.0.1/24 dev near")
# It has its namespace once its link is not found here any more.
while os.readlink(f"/proc/{far.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
    pass
sh(f"ip link set far netns {far.pid}; ip link set near up; ip route add default via 10.99.0.2")
print("go", file=far.stdin, flush=True)
assert far.stdout.readline() == "ready\\n"

loopback = [socket.create_server(("127.0.0.1", 7001)), socket.create_server(("127.0.0.1", 53))]
assert socket.create_connection(("10.99.0.2", 7000), timeout=5).recv(99) == b"from afar"
socket.create_connection(("127.0.0.1", 7001), timeout=5).close()

sys.path[:0] = json.loads(sys.argv[1])
import shutil
which = shutil.which
shutil.which = lambda word: None if word == sys.argv[2] else which(word)
from conftest import request, run_in
from sandboxio.models import NetworkPolicy
from sandboxio_local._driver import LocalDriver

INSIDE = '''
import json, os, socket
results = {}
for address, port in (("10.99.0.2", 7000), ("127.0.0.1", 7001), ("10.99.0.2", 7001),
                      ("10.0.2.2", 7001), ("10.99.0.1", 7001), ("169.254.1.53", 7001)):
    try:
        with socket.create_connection((address, port), timeout=2) as connection:
            results[f"{address} {port}"] = connection.recv(99).decode() or "open"
    except OSError:
        results[f"{address} {port}"] = ""
servers = [socket.create_server(("127.0.0.1", 7003)), socket.create_server(("0.0.0.0", 7004))]
print(json.dumps(results), flush=True)
if os.fork():
    os._exit(0)
os.close(1); os.close(2)
import time; time.sleep(60)
'''

async def main():
    driver = LocalDriver()
    sandbox = await driver.provision(request(driver, network=NetworkPolicy(egress="allow")))
    ran = await run_in(sandbox, "python3", "-c", INSIDE)
    results = json.loads(ran.output)
    for port in (7003, 7004):
        for address in ("127.0.0.1", "10.99.0.1"):
            try:
                socket.create_connection((address, port), timeout=2).close()
                results[f"in {port}"] = "open"
            except OSError:
                pass
    await sandbox.terminate()
    print(json.dumps(results))

try:
    anyio.run(main)
finally:
    far.kill()
    far.wait()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network to test in")
@pytest.mark.parametrize("name", HELPERS)
def test_out_and_nowhere_else(name: str) -> None:
    if not usable(name):
        pytest.skip(f"{name} is not installed")
    (other,) = set(HELPERS) - {name}
    paths = [str(Path(__file__).parent), *sys.path]
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", WORLD, json.dumps(paths), other],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    reached = {target for target, answer in results.items() if answer}
    assert reached == {"10.99.0.2 7000"}
    assert results["10.99.0.2 7000"] == "from afar"


async def test_allowed_sandbox_has_a_route_and_a_resolver(
    make: Make, run: Run, helper: str
) -> None:
    sandbox = await make(network=NetworkPolicy(egress="allow"))
    assert helper in sandbox.policy.network_mechanism
    assert sandbox.policy.network_verified
    assert sandbox.policy.network == NetworkPolicy(egress="allow")
    routes = (await run(sandbox, "cat", "/proc/net/route")).output
    assert "00000000" in routes
    assert "nameserver" in (await run(sandbox, "cat", "/etc/resolv.conf")).output


async def test_loopback_of_the_host_is_out_of_reach(make: Make, run: Run, helper: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        sandbox = await make(network=NetworkPolicy(egress="allow"))
        ran = await run(
            sandbox,
            *("python3", "-c"),
            "import socket\n"
            "gateway = [line.split()[2] for line in open('/proc/net/route') if line.split()[1] == '0'*8]\n"
            "for address in ('127.0.0.1', socket.inet_ntoa(bytes.fromhex(gateway[0])[::-1])):\n"
            "    try:\n"
            f"        socket.create_connection((address, {port}), timeout=1).close()\n"
            "        print('open', address)\n"
            "    except OSError as error: print(error)\n",
        )
    assert ran.code == 0, ran.output
    assert "open" not in ran.output


async def test_helper_ends_with_the_sandbox(make: Make, helper: str) -> None:
    sandbox = await make(network=NetworkPolicy(egress="allow"))
    process = process_of(sandbox, "helper")
    assert alive(*process)
    if os.geteuid() == 0:
        assert Path(f"/proc/{process[0]}").stat().st_uid != 0  # noqa: ASYNC240
    await sandbox.terminate()
    assert not alive(*process)


async def test_helper_of_a_killed_warden_ends(make: Make, until: Until, helper: str) -> None:
    sandbox = await make(network=NetworkPolicy(egress="allow"))
    process = process_of(sandbox, "helper")
    os.kill(process_of(sandbox, "warden")[0], signal.SIGKILL)
    await sandbox.terminate()
    await until(lambda: not alive(*process))


async def test_sandbox_ends_with_its_helper(make: Make, until: Until, helper: str) -> None:
    """Without its helper a sandbox that may reach the network would hang on every connection."""
    sandbox = await make(network=NetworkPolicy(egress="allow"))
    os.kill(process_of(sandbox, "helper")[0], signal.SIGKILL)
    await until(lambda: not alive(sandbox.native.init, sandbox.native.init_started))


def process_of(sandbox: LocalSandbox, role: str) -> tuple[int, int]:
    lines = (sandbox.native.directory / "processes").read_text().splitlines()
    processes = {name: (int(pid), int(started)) for name, pid, started in map(str.split, lines)}
    return processes[role]


async def test_failing_helper_leaves_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = _egress.Egress(
        "broken", ("/bin/sh", "-c", "echo no such luck >&2; exit 3"), "10.0.0.1"
    )
    monkeypatch.setattr(_egress, "of", lambda policy: broken)
    with pytest.raises(CreationError, match="no such luck"):
        await make(network=NetworkPolicy(egress="allow"))


def test_without_a_helper_allow_is_refused_with_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tun = tmp_path / "tun"
    tun.touch()
    monkeypatch.setattr(_egress, "_TUN", tun)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CapabilityNotSupported) as caught:
        _egress.of(NetworkPolicy(egress="allow"))
    assert "apt-get install passt" in caught.value.hint


def test_without_a_tun_device_allow_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_egress, "_TUN", tmp_path / "none")
    with pytest.raises(CapabilityNotSupported, match="none"):
        _egress.of(NetworkPolicy(egress="allow"))


@pytest.mark.parametrize(
    "policy",
    [
        NetworkPolicy(allow=("example.com",)),
        NetworkPolicy(egress="allow", allow=("10.0.0.0/8",)),
        NetworkPolicy(ingress_ports=(80,)),
        NetworkPolicy(egress="learn"),
        NetworkPolicy(egress=cast("Literal['deny']", "Deny")),
        NetworkPolicy(egress=cast("Literal['deny']", "")),
    ],
)
def test_what_cannot_be_enforced_is_refused(policy: NetworkPolicy) -> None:
    with pytest.raises(CapabilityNotSupported):
        _egress.of(policy)
