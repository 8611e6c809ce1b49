"""What code inside can reach: nothing. Each refusal has its control, a place where the same works."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandboxio_local._sandbox import LocalSandbox

Run = Callable[..., Awaitable[Any]]
Make = Callable[..., Awaitable[LocalSandbox]]

CONNECT = """
import json, socket, sys
results = {}
for family, kind, address in json.loads(sys.argv[1]):
    address = tuple(address) if isinstance(address, list) else address
    with socket.socket(family, kind) as sock:
        sock.settimeout(5)
        try:
            sock.connect(address)
            sock.send(b"x")
        except OSError as error:
            results[str(address)] = error.errno or 1
        else:
            results[str(address)] = 0
print(json.dumps(results))
"""


async def connect_from_inside(sandbox: LocalSandbox, run: Run, *targets: object) -> dict[str, int]:
    ran = await run(sandbox, "python3", "-c", CONNECT, json.dumps(targets))
    assert ran.code == 0, ran.output
    results: dict[str, int] = json.loads(ran.output)
    assert len(results) == len(targets)
    return results


async def inside(sandbox: LocalSandbox, run: Run, code: str) -> Any:
    """Run Python inside and return what it prints as JSON."""
    ran = await run(sandbox, "python3", "-c", f"import json, os\n{code}")
    assert ran.code == 0, ran.output
    return json.loads(ran.output)


def status_of(sandbox: LocalSandbox) -> dict[str, list[str]]:
    """Return what the host's kernel says of a sandbox's first process."""
    lines = Path(f"/proc/{sandbox.native.init}/status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


def environments_of(sandbox: LocalSandbox) -> bytes:
    """Return the environments of all processes of the host that belong to a sandbox."""
    lines = (sandbox.native.directory / "processes").read_text().splitlines()
    return b"".join(Path(f"/proc/{line.split()[1]}/environ").read_bytes() for line in lines)


def descriptors_of(sandbox: LocalSandbox) -> list[str]:
    """Return what a sandbox's first process holds open."""
    return [str(entry.readlink()) for entry in Path(f"/proc/{sandbox.native.init}/fd").iterdir()]


def namespace(pid: int, name: str) -> Path:
    """Return which namespace of a kind a process is in."""
    return Path(f"/proc/{pid}/ns/{name}").readlink()


@pytest.fixture
def listeners() -> Iterator[list[tuple[int, int, list[object]]]]:
    """Listen on every address of this host, and prove that this host reaches them."""
    targets: list[tuple[int, int, list[object]]] = []
    sockets: list[socket.socket] = []
    addresses = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            addresses.append((socket.AF_INET, probe.getsockname()[0]))
        except OSError:
            pass  # a host without a network
    for family, address in addresses:
        server = socket.socket(family, socket.SOCK_STREAM)
        server.bind((address, 0))
        server.listen()
        sockets.append(server)
        target: list[object] = [address, server.getsockname()[1]]
        with socket.socket(family, socket.SOCK_STREAM) as client:
            client.settimeout(5)
            client.connect((address, server.getsockname()[1]))
        targets.append((int(family), int(socket.SOCK_STREAM), target))
    yield targets
    for server in sockets:
        server.close()


async def test_services_of_the_host_are_out_of_reach(
    sandbox: LocalSandbox, run: Run, listeners: list[tuple[int, int, list[object]]]
) -> None:
    results = await connect_from_inside(sandbox, run, *listeners)
    assert 0 not in results.values(), results


async def test_the_internet_is_out_of_reach(sandbox: LocalSandbox, run: Run) -> None:
    v4, v6 = int(socket.AF_INET), int(socket.AF_INET6)
    stream, datagram = int(socket.SOCK_STREAM), int(socket.SOCK_DGRAM)
    results = await connect_from_inside(
        sandbox,
        run,
        (v4, stream, ["1.1.1.1", 443]),
        (v4, stream, ["1.1.1.1", 80]),
        (v4, datagram, ["8.8.8.8", 53]),
        (v4, stream, ["169.254.169.254", 80]),
        (v4, stream, ["172.17.0.1", 2375]),
        (v6, stream, ["2606:4700:4700::1111", 443]),
        (v6, datagram, ["2001:4860:4860::8888", 53]),
    )
    assert 0 not in results.values(), results
    names = await inside(
        sandbox,
        run,
        "import socket\n"
        "try: print(json.dumps(bool(socket.getaddrinfo('example.com', 80))))\n"
        "except OSError: print('false')",
    )
    assert names is False


async def test_loopback_inside_works(sandbox: LocalSandbox, run: Run) -> None:
    """The control of the two above: sockets as such work, there is only nobody to talk to."""
    assert await inside(
        sandbox,
        run,
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "client = socket.create_connection(server.getsockname(), timeout=5)\n"
        "client.send(b'hello')\n"
        "print(json.dumps(server.accept()[0].recv(9).decode() == 'hello'))",
    )


async def test_unix_sockets_of_the_host_are_out_of_reach(
    sandbox: LocalSandbox, run: Run, tmp_path: Path
) -> None:
    abstract = f"\0sandboxio-test-{secrets.token_hex(8)}"
    path = f"/tmp/sandboxio-test-{secrets.token_hex(8)}"
    unix, stream = int(socket.AF_UNIX), int(socket.SOCK_STREAM)
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        for server, address in ((first, abstract), (second, path)):
            server.bind(address)
            server.listen()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(address)
        try:
            results = await connect_from_inside(
                sandbox,
                run,
                (unix, stream, abstract),
                (unix, stream, path),
                (unix, stream, "/var/run/docker.sock"),
                (unix, stream, "/run/docker.sock"),
                (unix, stream, "/run/containerd/containerd.sock"),
                (unix, stream, "/run/dbus/system_bus_socket"),
                (unix, stream, str(sandbox.native.directory / "control")),
            )
        finally:
            os.unlink(path)  # noqa: PTH108
    assert 0 not in results.values(), results


async def test_sandboxes_do_not_see_each_other(make: Make, run: Run) -> None:
    first, second = await make(), await make()
    serve = (
        "import os, socket, sys, time\n"
        "tcp = socket.create_server(('127.0.0.1', 4711))\n"
        "unix = socket.socket(socket.AF_UNIX); unix.bind('\\0meet'); unix.listen()\n"
        "path = socket.socket(socket.AF_UNIX); path.bind('/tmp/meet'); path.listen()\n"
        "open('/dev/shm/meet', 'w').close()\n"
        "if os.fork(): os._exit(0)\n"
        "os.close(1); os.close(2)\n"
        "time.sleep(60)"
    )
    targets = (
        (int(socket.AF_INET), int(socket.SOCK_STREAM), ["127.0.0.1", 4711]),
        (int(socket.AF_UNIX), int(socket.SOCK_STREAM), "\0meet"),
        (int(socket.AF_UNIX), int(socket.SOCK_STREAM), "/tmp/meet"),
    )
    assert (await run(first, "python3", "-c", serve)).code == 0
    own = await connect_from_inside(first, run, *targets)
    assert set(own.values()) == {0}, own
    others = await connect_from_inside(second, run, *targets)
    assert 0 not in others.values(), others
    seen = await inside(second, run, "print(json.dumps(os.path.exists('/dev/shm/meet')))")
    assert seen is False
    # Their users are different ones of the host when it is root who makes them.
    if os.geteuid() == 0:
        assert len({"0", status_of(first)["Uid"][0], status_of(second)["Uid"][0]}) == 3


async def test_nobody_inside_is_root_outside(sandbox: LocalSandbox, run: Run) -> None:
    assert (await run(sandbox, "id", "-u")).output == "1000\n"
    ran = await run(sandbox, "sleep", "0")
    assert ran.code == 0
    status = status_of(sandbox)
    assert "0" not in status["Uid"] + status["Gid"]
    if os.geteuid() == 0:
        assert status["Groups"] == []
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name][0], 16) == 0
    assert status["NoNewPrivs"] == ["1"]
    assert status["Seccomp"] == ["2"]


async def test_commands_have_no_rights_either(sandbox: LocalSandbox, run: Run) -> None:
    status = (await run(sandbox, "cat", "/proc/self/status")).output
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert f"{name}:\t{'0' * 16}" in status
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status


async def test_the_first_process_tells_nothing(
    sandbox: LocalSandbox, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("environ", "mem", "maps", "fd", "root", "cwd", "exe"):
        ran = await run(sandbox, "sh", "-c", f"cat /proc/1/{name} || ls /proc/1/{name}/")
        assert ran.code != 0, name
        assert "Permission denied" in ran.output, name


async def test_environment_of_the_host_stays_outside(
    make: Make, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = secrets.token_hex(16)
    monkeypatch.setenv("SANDBOXIO_TEST_CANARY", canary)
    sandbox = await make(env={"GIVEN": "yes"})
    ran = await run(sandbox, "sh", "-c", "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>&1")
    assert "GIVEN=yes" in ran.output
    assert canary not in ran.output
    assert set(dict(line.split("=", 1) for line in ran.output.splitlines()[:9] if "=" in line)) <= {
        *("GIVEN", "HOME", "LANG", "PATH", "PWD", "OLDPWD", "SHLVL", "_"),
    }
    if os.geteuid() == 0:
        assert canary.encode() not in environments_of(sandbox)


async def test_processes_of_the_host_are_not_seen(sandbox: LocalSandbox, run: Run) -> None:
    pids = await inside(
        sandbox, run, "print(json.dumps([int(p) for p in os.listdir('/proc') if p.isdigit()]))"
    )
    assert 1 in pids
    assert len(pids) < 10
    assert str(os.getpid()) not in pids
    assert (await run(sandbox, "kill", "-0", str(os.getpid()))).code != 0


async def test_the_first_process_cannot_be_killed_or_traced(
    sandbox: LocalSandbox, run: Run
) -> None:
    for number in (9, 15, 2, 1, 19, 11):
        await run(sandbox, "kill", f"-{number}", "1")
    result = await inside(
        sandbox,
        run,
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "attach = libc.ptrace(16, 1, 0, 0)\n"
        "buffer = ctypes.create_string_buffer(8)\n"
        "class Vec(ctypes.Structure):\n"
        "    _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]\n"
        "local = Vec(ctypes.addressof(buffer), 8)\n"
        "remote = Vec(0x400000, 8)\n"
        "read = libc.process_vm_readv(1, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)\n"
        "print(json.dumps([attach, read]))",
    )
    assert result == [-1, -1]
    assert await sandbox.alive()
    assert (await run(sandbox, "echo", "still here")).output == "still here\n"


async def test_children_can_be_traced(sandbox: LocalSandbox, run: Run) -> None:
    """The control of the one above: debuggers work on what one has started oneself."""
    assert await inside(
        sandbox,
        run,
        "import ctypes, signal\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    libc.ptrace(0, 0, 0, 0)\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "    os._exit(0)\n"
        "_, status = os.waitpid(pid, 0)\n"
        "print(json.dumps(os.WIFSTOPPED(status)))",
    )


SYSCALLS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    return 0 if result >= 0 else ctypes.get_errno()
fd = os.open("/proc/self/ns/net", os.O_RDONLY)
print(json.dumps({
    "mount": call("mount", b"none", b"/tmp", b"tmpfs", 0, None),
    "bind": call("mount", b"/usr", b"/tmp", None, 4096, None),
    "remount": call("mount", None, b"/usr", None, 32 | 4096, None),
    "umount": call("umount2", b"/work", 2),
    "chroot": call("chroot", b"/tmp"),
    "pivot_root": call("syscall", 155 if os.uname().machine == "x86_64" else 41, b"/tmp", b"/tmp"),
    "user namespace": call("unshare", 0x10000000),
    "mount namespace": call("unshare", 0x20000),
    "network namespace": call("unshare", 0x40000000),
    "setns": call("setns", fd, 0),
    "sethostname": call("sethostname", b"x", 1),
    "bpf": call("syscall", 321 if os.uname().machine == "x86_64" else 280, 0, 0, 0),
    "keyctl": call("syscall", 250 if os.uname().machine == "x86_64" else 219, 0, 0, 0, 0, 0),
    "io_uring": call("syscall", 425, 8, 0),
    "clone3": call("syscall", 435, 0, 0),
    "klog": call("klogctl", 3, None, 0),
    "swapoff": call("swapoff", b"/x"),
    "reboot": call("reboot", 0),
    "personality": call("personality", 0x40000),
    "mknod": call("mknod", b"/tmp/disk", 0o60666, 0xfe00),
    "setuid": call("setuid", 0),
    "setgroups": call("setgroups", 0, None),
    "nice": call("setpriority", 0, 0, -5),
    "realtime": call("sched_setscheduler", 0, 1, b"\\1\\0\\0\\0"),
}))
"""


async def test_calls_for_the_privileged_fail(sandbox: LocalSandbox, run: Run) -> None:
    results = await inside(sandbox, run, SYSCALLS)
    assert {name: number for name, number in results.items() if number == 0} == {}
    assert results["io_uring"] == results["clone3"] == 38


async def test_sockets_for_the_privileged_fail(sandbox: LocalSandbox, run: Run) -> None:
    results = await inside(
        sandbox,
        run,
        "import socket\n"
        "results = {}\n"
        "for family, kind, protocol in ((2, 3, 1), (2, 3, 255), (10, 3, 58), (17, 3, 3), (40, 1, 0),"
        " (38, 5, 0), (16, 3, 9), (16, 3, 12), (31, 3, 1), (2, 1, 132), (29, 3, 1)):\n"
        "    try: socket.socket(family, kind, protocol).close(); results[f'{family} {protocol}'] = 0\n"
        "    except OSError as error: results[f'{family} {protocol}'] = error.errno\n"
        "print(json.dumps(results))",
    )
    assert 0 not in results.values(), results


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/usr",
            "/usr/bin",
            "/usr/local/bin",
            "/etc",
            "/bin",
            "/lib",
            "/dev",
            "/run",
            "/var",
        ),
        *("/proc", "/proc/sys/kernel", "/run/sandboxio"),
    ],
)
async def test_directories_cannot_be_written(sandbox: LocalSandbox, run: Run, path: str) -> None:
    ran = await run(sandbox, "touch", f"{path}/sandboxio-test")
    assert ran.code != 0, ran.output


async def test_own_directories_can_be_written(sandbox: LocalSandbox, run: Run) -> None:
    ran = await run(
        sandbox,
        *("sh", "-ec", "for d in /work /tmp /var/tmp /dev/shm $HOME; do echo x > $d/x; done; pwd"),
    )
    assert (ran.code, ran.output) == (0, "/work\n")


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/usr/bin/env"),
        *("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger"),
        *("/proc/sys/vm/drop_caches", "/proc/1/oom_score_adj", "/proc/self/uid_map"),
        *("/proc/self/gid_map", "/proc/self/setgroups", "/proc/sys/user/max_user_namespaces"),
    ],
)
async def test_files_of_the_system_cannot_be_written(
    sandbox: LocalSandbox, run: Run, path: str
) -> None:
    ran = await run(sandbox, "sh", "-c", f"echo 1 > {path}")
    assert ran.code != 0, ran.output


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/home",
            "/root",
            "/boot",
            "/sys",
            "/opt",
            "/mnt",
            "/media",
            "/srv",
            "/var/log",
            "/var/lib",
        ),
        *("/etc/shadow", "/etc/ssh", "/etc/ssl/private", "/etc/environment", "/etc/machine-id"),
        *(
            "/etc/resolv.conf",
            "/etc/pip.conf",
            "/run/docker.sock",
            "/run/user",
            "/dev/sda",
            "/dev/vda",
        ),
        *("/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/net", "/dev/kvm", "/dev/mqueue"),
    ],
)
async def test_places_of_the_host_are_not_there(sandbox: LocalSandbox, run: Run, path: str) -> None:
    ran = await run(sandbox, "ls", "-d", path)
    assert ran.code != 0, ran.output
    assert "No such file" in ran.output


async def test_a_file_of_the_callers_is_not_there(
    sandbox: LocalSandbox, run: Run, tmp_path: Path
) -> None:
    secret = tmp_path / f"secret-{secrets.token_hex(4)}"
    secret.write_text("secret")
    assert (await run(sandbox, "cat", str(secret))).code != 0
    for root in ("/proc/1/root", "/proc/self/root", "/proc/self/cwd/.."):
        assert (await run(sandbox, "cat", f"{root}{secret}")).code != 0


@pytest.mark.parametrize(
    "name", ["kcore", "keys", "kallsyms", "timer_list", "kmsg", "cmdline", "config.gz", "iomem"]
)
async def test_proc_tells_nothing_of_the_kernel(sandbox: LocalSandbox, run: Run, name: str) -> None:
    ran = await run(sandbox, "head", "-c1", f"/proc/{name}")
    assert ran.code != 0, ran.output


async def test_setuid_programs_give_nothing(sandbox: LocalSandbox, run: Run) -> None:
    mounts = (await run(sandbox, "cat", "/proc/self/mounts")).output.splitlines()
    assert len(mounts) > 10
    assert [line for line in mounts if "nosuid" not in line.split()[3].split(",")] == []
    writable = {line.split()[1] for line in mounts if line.split()[3].startswith("rw")}
    assert {path for path in writable if not path.startswith("/dev/")} == {"/proc", "/tmp", "/work"}
    devices = {line.split()[1] for line in mounts if "nodev" not in line.split()[3].split(",")}
    assert {path for path in devices if not path.startswith("/dev/")} == set()


async def test_devices_are_the_harmless_ones(sandbox: LocalSandbox, run: Run) -> None:
    names = await inside(sandbox, run, "print(json.dumps(sorted(os.listdir('/dev'))))")
    assert names == sorted(
        [
            "core",
            "fd",
            "full",
            "null",
            "ptmx",
            "pts",
            "random",
            "shm",
            "stderr",
            "stdin",
            "stdout",
            "tty",
            "urandom",
            "zero",
        ]
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into what is not dumpable")
async def test_guest_holds_nothing_of_the_hosts(sandbox: LocalSandbox) -> None:
    """A descriptor of a directory or of the control socket would be a way out."""
    targets = descriptors_of(sandbox)
    kinds = {target.split(":")[0] for target in targets if not target.startswith("/proc/")}
    assert kinds <= {"/dev/null", "pipe", "socket", "anon_inode"}
    # the channel, and the socket for those who attach
    assert len([target for target in targets if target.startswith("socket:")]) == 2


async def test_commands_inherit_no_descriptors(sandbox: LocalSandbox, run: Run) -> None:
    listed = await inside(sandbox, run, "print(json.dumps(sorted(os.listdir('/proc/self/fd'))))")
    assert listed == ["0", "1", "2", "3"]  # the last one is that of the listing


async def test_sandbox_is_in_no_namespace_of_the_host(sandbox: LocalSandbox) -> None:
    for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        assert namespace(sandbox.native.init, name) != namespace(os.getpid(), name), name


async def test_policy_says_what_was_verified(sandbox: LocalSandbox) -> None:
    policy = sandbox.policy
    assert policy.network_verified
    for cap in (policy.cpu, policy.memory_mb, policy.processes, policy.disk_mb):
        assert cap is not None
        assert cap.verified
        assert cap.value > 0
