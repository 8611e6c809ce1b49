"""How a guest begins and ends: the lease, the lifetime, and those who attach."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxio.errors import CreationError, SandboxGone
from sandboxio.guest import GuestChannel, GuestInit, SocketTransport
from sandboxio.guest import program as wire
from sandboxio.guest.process import OUTPUT_WINDOW, GuestProcess
from sandboxio.protocols import AsyncSandbox
from sandboxio.spi import DriverBackend, ExitCause

Gone = Callable[[int], Awaitable[None]]

BOUND = 30
"""Seconds for what takes a fraction of one; the machine may be busy."""


@pytest.fixture
def backend(host_driver: Any) -> DriverBackend:
    """The engine over guests of this case's Python."""
    return DriverBackend(host_driver)


@pytest.fixture
async def lasting(host_driver: Any, backend: DriverBackend) -> AsyncIterator[AsyncSandbox]:
    """A sandbox without a lease: it outlives its creator's connection."""
    host_driver.lease = False
    sandbox = await backend.create(timeout=100, secrets={"KEY": "canary-1"})
    yield sandbox
    native: Any = sandbox.native
    native.process.kill()
    native.process.wait()


async def background(sandbox: AsyncSandbox) -> int:
    """Start something that stays, and return its pid."""
    return int((await sandbox.run("setsid sleep 1000 & echo $!")).stdout)


async def test_end_of_the_creators_connection_ends_it_all(
    backend: DriverBackend, gone: Gone
) -> None:
    sandbox = await backend.create(timeout=100)
    pid = await background(sandbox)
    native: Any = sandbox.native
    native.socket.close()
    await gone(native.process.pid)
    await gone(pid)
    assert native.wait() == 0
    with pytest.raises(SandboxGone):
        await sandbox.run(["true"])
    await sandbox.kill()


async def test_without_a_lease_it_stays_and_others_attach(
    backend: DriverBackend, lasting: AsyncSandbox, gone: Gone
) -> None:
    native: Any = lasting.native
    pid = await background(lasting)
    native.socket.close()
    async with await backend.connect(lasting.id) as again:
        assert (await again.run(["pwd"])).stdout.strip() == str(native.workdir)
        assert (await again.run("echo $KEY")).stdout == "canary-1\n"
        assert (await again.run(["kill", "-0", str(pid)])).ok
    async with await backend.connect(lasting.id) as third:
        assert (await third.run(["kill", "-0", str(pid)])).ok


async def test_who_attaches_learns_secrets_and_the_remaining_lifetime(
    lasting: AsyncSandbox,
) -> None:
    native: Any = lasting.native
    channel = await GuestChannel.open(native.connect(), None)
    assert channel.secrets == ("canary-1",)
    assert 0 < channel.remaining <= 100
    channel.close()


async def test_end_of_a_further_connection_ends_its_commands_only(
    backend: DriverBackend, lasting: AsyncSandbox, gone: Gone
) -> None:
    async with lasting.stream("echo on; exec sleep 1000") as own:
        await anext(aiter(own))
        other = await backend.connect(lasting.id)
        async with other.stream("echo $$; exec sleep 1000") as process:
            pid = int((await anext(aiter(process))).data)
            await other.__aexit__(None, None, None)
            await gone(pid)
        assert own.returncode is None
        assert (await lasting.run(["true"])).ok


async def test_lifetime_ends_it_and_the_error_says_so(backend: DriverBackend, gone: Gone) -> None:
    sandbox = await backend.create(timeout=4)
    native: Any = sandbox.native
    with anyio.fail_after(BOUND), pytest.raises(SandboxGone, match="lifetime is over"):
        await sandbox.run(["sleep", "1000"])
    with pytest.raises(SandboxGone):
        await sandbox.run(["true"])
    await gone(native.process.pid)
    await sandbox.kill()


async def test_lifetime_ends_what_has_no_lease_too(
    host_driver: Any, backend: DriverBackend, gone: Gone
) -> None:
    host_driver.lease = False
    sandbox = await backend.create(timeout=4)
    native: Any = sandbox.native
    pid = await background(sandbox)
    native.socket.close()
    await gone(native.process.pid)
    await gone(pid)


async def test_working_directory_that_is_not_there_is_a_failed_create(host_driver: Any) -> None:
    native = host_driver.start("w")
    init = GuestInit(env={}, workdir="/no/such/folder", lifetime=10)
    with anyio.fail_after(BOUND), pytest.raises(CreationError, match="No such file"):
        await GuestChannel.open(SocketTransport(native.socket), init)
    assert native.wait() == 0


GARBAGE = [
    b"\xff" * 64,
    wire.HEADER.pack(3, wire.START, 1) + b"i1x",
    wire.HEADER.pack(0, wire.START, 1),
    wire.HEADER.pack(2, wire.START, 1) + b"de",
    wire.HEADER.pack(0, wire.READ, 1),
    wire.HEADER.pack(5, wire.LS, 1) + b"li1ee",
    wire.HEADER.pack(1 << 30, wire.DATA, 1),
    wire.HEADER.pack(23, wire.MKDIR, 1) + b"d4:path3:a\0b7:parentsi0e",
]


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_connection_that_sends_nonsense_is_closed_and_nothing_else(
    lasting: AsyncSandbox, garbage: bytes
) -> None:
    native: Any = lasting.native
    transport = native.connect()
    with anyio.fail_after(BOUND):
        transport.send_nowait(memoryview(garbage + b"\0" * 64))
        while await transport.receive():
            pass
    transport.close()
    assert (await lasting.run(["true"])).ok


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become someone else")
async def test_guest_becomes_the_user_and_gives_it_the_directories(host_driver: Any) -> None:
    host_driver.folder.chmod(0o755)
    program = host_driver.start("w", "user=12345:23456", f"own={host_driver.folder}/w")
    init = GuestInit(env={}, workdir=str(program.workdir), lifetime=100, lease=False)
    (await GuestChannel.open(SocketTransport(program.socket), init)).close()
    async with await DriverBackend(host_driver).connect("w") as made:
        result = await made.run("id -u; id -g; id -G; touch file; stat -c %u:%g file .")
        assert result.stdout.split() == ["12345", "23456", "23456"] + ["12345:23456"] * 2
        assert not (await made.run("kill -0 $PPID; cat /proc/$PPID/environ")).ok
        await made.files.write("written", "x")
        assert program.workdir.joinpath("written").stat().st_uid == 12345
    program.process.kill()


async def test_start_of_a_guest_needs_few_modules(guest_python: str) -> None:
    """What it imports decides how fast a sandbox is there."""
    code = (
        "import sys, os; before = set(sys.modules)\n"
        f"sys.path.insert(0, {str(Path(wire.__file__).parent)!r})\n"
        "import program; print(*sorted(set(sys.modules) - before))"
    )
    result = await anyio.run_process([guest_python, "-I", "-S", "-B", "-c", code])
    loaded = set(result.stdout.decode().split())
    assert loaded <= {"program", "select", "struct", "_struct", "errno", "gc", "__future__"}


async def test_signal_that_comes_with_the_start_is_not_lost(host_driver: Any) -> None:
    """Before the guest knows the command's pid, as an answer to its first output can."""
    program = host_driver.start("w")
    init = GuestInit(env={}, workdir=str(program.workdir), lifetime=100)
    channel = await GuestChannel.open(SocketTransport(program.socket), init)
    process = GuestProcess(channel, lambda _: ExitCause.EXITED, b"", keep_stdin_open=False)
    request = {"argv": ["sleep", "1000"], "env": {}, "cwd": "", "stdin": 0}
    channel.begin(process, wire.START, {**request, "timeout": 100_000, "window": OUTPUT_WINDOW})
    channel.post(wire.SIGNAL, process.ident, {"signum": 15})
    with anyio.fail_after(BOUND):
        await channel.flush()
        assert (await process.wait()).exit_code == 128 + 15
    channel.close()
