"""A guest that does not keep to the protocol: it ends its own sandbox, and nothing else.

Whatever arrives, a call ends with `SandboxGone` or its subclass `SandboxCorrupted` within its
bound, and what the host holds for it stays within the windows that it granted.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxio.errors import (
    CreationError,
    DiskFull,
    FileSystemError,
    OutOfMemory,
    ProcessLimitExceeded,
    SandboxCorrupted,
    SandboxError,
    SandboxGone,
)
from sandboxio.guest import GuestChannel, GuestInit, GuestSandbox
from sandboxio.guest import program as wire
from sandboxio.guest.files import MAX_ENTRIES, MAX_LISTING, READ_WINDOW, Listing, Reading
from sandboxio.guest.process import MAX_SEGMENTS, OUTPUT_WINDOW, GuestProcess
from sandboxio.spi import Command, ExitCause, FileMeta

BOUND = 30
"""Seconds for what takes a fraction of one; the machine may be busy."""

COMMAND = Command(
    argv=("x",), env={}, cwd=None, stdin=b"", keep_stdin_open=False, timeout=60, call="run"
)

INIT = GuestInit(env={"A": "b"}, lifetime=60)

EXIT = {"status": 0, "killed": 0, "empty": 1, "deadline": 0, "full": 0}

INFO = {"size": 3, "mode": 0o644, "mtime": 1000}


class Sandbox(GuestSandbox):
    """What a driver makes of a channel; remembers that it was ended."""

    terminated = False

    async def terminate(self) -> None:
        """End it."""
        self.terminated = True
        self.channel.close()


async def ready(peer: Any) -> GuestChannel:
    """A channel to a guest that has greeted as it should."""
    peer.greet()
    peer.send(wire.READY, 0)
    return await GuestChannel.open(peer.transport, INIT)


async def content() -> AsyncIterator[bytes]:
    """What a test writes."""
    yield b"content"


async def call(channel: GuestChannel, which: str) -> object:
    """Make one of the calls that a driver makes, and read all that comes of it."""
    sandbox = Sandbox(channel)
    if which == "run":
        process = await sandbox.start(COMMAND)
        while await process.receive() is not None:
            pass
        return await process.wait()
    if which == "read":
        async with sandbox.read("f") as (_, chunks):
            return b"".join([chunk async for chunk in chunks])
    if which == "write":
        return await sandbox.write("f", content(), FileMeta())
    if which == "mkdir":
        return await sandbox.mkdir("d", parents=False)
    return await (sandbox.ls("d") if which == "ls" else sandbox.stat("d"))


CALLS = ["run", "read", "write", "ls", "stat", "mkdir"]


async def refused(peer: Any, which: str, *frames: tuple[int, int, object]) -> str:
    """Make a call that gets these answers, and return why the sandbox was ended."""
    channel = await ready(peer)
    for frame in frames:
        peer.send(*frame)
    with anyio.fail_after(BOUND), pytest.raises(SandboxCorrupted) as caught:
        await call(channel, which)
    assert channel.failed
    with pytest.raises(SandboxCorrupted):
        await call(channel, "ls")
    return caught.value.message


@pytest.fixture
def peers(peer: Any) -> Iterator[Callable[[], Any]]:
    """Makes guests for tests that need a new one for each of their examples."""
    made: list[Any] = []

    def make() -> Any:
        made.append(type(peer)())
        return made[-1]

    yield make
    for one in made:
        one.close()
        one.transport.close()


# ----- greetings


async def test_honest_guest_is_greeted_and_told_what_it_needs(peer: Any) -> None:
    channel = await ready(peer)
    kind, ident, payload = peer.receive()
    assert (kind, ident) == (wire.INIT, 0)
    assert wire.decode(payload)[b"env"] == {b"A": b"b"}
    assert channel.workdir == "/work"
    assert 0 < channel.remaining <= 60
    channel.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"v": 2},
        {"v": b"1"},
        {"pid": -1},
        {"pid": 1 << 70},
        {"remaining": "x"},
        {"remaining": -2},
        {"workdir": 1},
        {"workdir": []},
        {"secrets": 1},
        {"secrets": {}},
    ],
)
@pytest.mark.parametrize("init", [INIT, None], ids=["create", "attach"])
async def test_greeting_of_another_shape_is_corrupt(
    peer: Any, fields: dict[str, object], init: GuestInit | None
) -> None:
    peer.greet(**fields)
    peer.send(wire.READY, 0)
    with anyio.fail_after(BOUND), pytest.raises(SandboxCorrupted):
        await GuestChannel.open(peer.transport, init)


@pytest.mark.parametrize("kind", [wire.HELLO, wire.READY, wire.BYE])
async def test_second_greeting_is_corrupt(peer: Any, kind: int) -> None:
    channel = await ready(peer)
    if kind == wire.BYE:
        peer.send(wire.BYE, 0, {"reason": "lifetime"})
        peer.send(wire.BYE, 0, {"reason": "lifetime"})
    elif kind == wire.HELLO:
        peer.greet()
    else:
        peer.send(wire.READY, 0)
    with anyio.fail_after(BOUND), pytest.raises(SandboxCorrupted):
        await call(channel, "ls")


async def test_guest_that_says_it_is_ready_to_who_attaches_is_corrupt(peer: Any) -> None:
    peer.greet()
    channel = await GuestChannel.open(peer.transport, None)
    peer.send(wire.READY, 0)
    with anyio.fail_after(BOUND), pytest.raises(SandboxCorrupted):
        await call(channel, "ls")


async def test_secrets_of_any_bytes_are_taken_as_text(peer: Any) -> None:
    peer.greet(secrets=[b"\xff", b"x", 1, []], remaining=-1)
    channel = await GuestChannel.open(peer.transport, None)
    assert channel.secrets == ("\udcff", "x")
    assert channel.remaining == float("inf")
    channel.close()


async def test_refused_greeting_is_a_failed_create_with_its_reason(peer: Any) -> None:
    peer.greet()
    peer.send(wire.FAIL, 0, {"errno": errno.EACCES, "what": "x"})
    with anyio.fail_after(BOUND), pytest.raises(CreationError, match="Permission denied"):
        await GuestChannel.open(peer.transport, INIT)


async def test_end_before_the_greeting_is_gone(peer: Any) -> None:
    peer.close()
    with anyio.fail_after(BOUND), pytest.raises(SandboxGone):
        await GuestChannel.open(peer.transport, INIT)


# ----- frames that must not be


@pytest.mark.parametrize("which", CALLS)
async def test_frame_of_any_type_without_content_is_an_answer_or_corrupt(
    peers: Callable[[], Any], which: str
) -> None:
    answers: list[int] = []
    for kind in range(256):
        peer = peers()
        channel = await ready(peer)
        peer.send(kind, 1)
        peer.close()
        with anyio.fail_after(BOUND), suppress(SandboxGone):
            await call(channel, which)
            answers.append(kind)
        assert channel.failed or kind in answers
        peer.transport.close()
    # An empty list, or that it is done; everything else needs content, or is not for the host.
    assert answers == ([wire.DONE] if which in ("ls", "mkdir", "write") else [])


@pytest.mark.parametrize("which", CALLS)
@pytest.mark.parametrize("ident", [2, 3, 1 << 31, (1 << 32) - 1])
async def test_frame_for_an_operation_that_is_not_is_corrupt(
    peer: Any, which: str, ident: int
) -> None:
    assert str(ident) in await refused(peer, which, (wire.DONE, ident, b""))


@pytest.mark.parametrize("which", CALLS)
@pytest.mark.parametrize(
    ("length", "kind"),
    [
        ((1 << 32) - 1, wire.OUT),
        (wire.MAX_PAYLOAD + 1, wire.OUT),
        (wire.MAX_PAYLOAD + 1, wire.ENTRIES),
        (5000, wire.EXIT),
        (5000, wire.FAIL),
        (5000, 200),
    ],
)
async def test_length_that_is_not_allowed_is_refused_before_it_arrives(
    peer: Any, which: str, length: int, kind: int
) -> None:
    channel = await ready(peer)
    peer.socket.sendall(wire.HEADER.pack(length, kind, 1))
    with anyio.fail_after(BOUND), pytest.raises(SandboxCorrupted, match=str(length)):
        await call(channel, which)


@pytest.mark.parametrize("which", CALLS)
@pytest.mark.parametrize("cut", range(1, 12))
async def test_end_in_the_middle_of_a_frame_is_gone(peer: Any, which: str, cut: int) -> None:
    channel = await ready(peer)
    peer.socket.sendall(peer.frame(wire.FAIL, 1, {"errno": 1, "what": ""})[:cut])
    peer.close()
    with anyio.fail_after(BOUND), pytest.raises(SandboxGone) as caught:
        await call(channel, which)
    assert not isinstance(caught.value, SandboxCorrupted)


WRONG: list[object] = [-1, 1 << 64, b"x", [], {}, [[1]], 10**22]


@pytest.mark.parametrize("field", list(EXIT))
@pytest.mark.parametrize("value", [*WRONG, None])
async def test_exit_of_another_shape_is_corrupt(peer: Any, field: str, value: object) -> None:
    fields: dict[str, object] = {key: item for key, item in EXIT.items() if key != field}
    if value is not None:
        fields[field] = value
    await refused(peer, "run", (wire.STARTED, 1, {"pid": 1}), (wire.EXIT, 1, fields))


@pytest.mark.parametrize("field", list(INFO))
@pytest.mark.parametrize("value", [*[w for w in WRONG if w != -1], None])
async def test_info_of_another_shape_is_corrupt(peer: Any, field: str, value: object) -> None:
    fields: dict[str, object] = {key: item for key, item in INFO.items() if key != field}
    if value is not None:
        fields[field] = value
    await refused(peer, "read", (wire.INFO, 1, fields))


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("value", [[], {}, 1 << 64, -(1 << 60), b"", b"a/b", b"..", b"n" * 5000])
async def test_entry_of_another_shape_is_corrupt(peer: Any, position: int, value: object) -> None:
    entry: list[object] = [b"name", 1, 0o100644, 1000]
    entry[position] = value
    await refused(peer, "ls", (wire.ENTRIES, 1, {"e": [entry]}))


@pytest.mark.parametrize("name", [b"", b".", b"..", b"/", b"/etc/passwd", b"../x", b"a\0b"])
async def test_name_that_leads_elsewhere_is_corrupt(peer: Any, name: bytes) -> None:
    await refused(peer, "ls", (wire.ENTRIES, 1, {"e": [[name, 1, 0o100644, 1000]]}))


@pytest.mark.parametrize("entry", [[], [b"a"], [b"a", 1, 1, 1, 1], b"a", 1, {}])
async def test_entry_with_other_parts_is_corrupt(peer: Any, entry: object) -> None:
    await refused(peer, "ls", (wire.ENTRIES, 1, {"e": [entry]}))


@pytest.mark.parametrize("field", ["errno", "what"])
@pytest.mark.parametrize("value", [*WRONG, 5000])
async def test_failure_of_another_shape_is_corrupt(peer: Any, field: str, value: object) -> None:
    if field == "what" and isinstance(value, bytes):
        return
    fields: dict[str, object] = {"errno": 1, "what": "", field: value}
    await refused(peer, "ls", (wire.FAIL, 1, fields))


ENTRY = [b"name", 1, 0o100644, 1000]


@pytest.mark.parametrize(
    ("which", "frames"),
    [
        ("run", [(wire.STARTED, {"pid": 1})] * 2),
        ("run", [(wire.STARTED, {"pid": 1}), (wire.FAIL, {"errno": 1, "what": ""})]),
        ("run", [(wire.OUT, b"x"), (wire.FAIL, {"errno": 1, "what": ""})]),
        ("run", [(wire.STARTED, {"pid": 1}), (wire.OUT, b"")]),
        ("run", [(wire.STARTED, {"pid": 1}), (wire.CREDIT, {"n": 1})]),
        ("run", [(wire.STARTED, {"pid": 1}), (wire.CREDIT, {"n": 0})]),
        ("run", [(wire.STARTED, {"pid": 1}), (wire.CREDIT, {"n": -1})]),
        ("run", [(wire.STARTED, {"pid": 1}), (wire.DONE, b"")]),
        ("read", [(wire.DATA, b"x")]),
        ("read", [(wire.DONE, b"")]),
        ("read", [(wire.INFO, INFO)] * 2),
        ("read", [(wire.INFO, INFO), (wire.DATA, b"")]),
        ("read", [(wire.INFO, INFO), (wire.DATA, b"four")]),
        ("write", [(wire.CREDIT, {"n": wire.WINDOW + 1})]),
        ("write", [(wire.EXIT, EXIT)]),
        ("ls", [(wire.ENTRIES, {"e": []})] * 2),
        ("ls", [(wire.ENTRIES, {"e": []}), (wire.ENTRIES, {"e": [ENTRY]})]),
        ("ls", [(wire.DATA, b"x")]),
        ("stat", [(wire.ENTRIES, {"e": [ENTRY, ENTRY]})]),
        ("stat", [(wire.ENTRIES, {"e": [ENTRY]})] * 2),
        ("stat", [(wire.DONE, b"")]),
        ("mkdir", [(wire.ENTRIES, {"e": [ENTRY]})]),
    ],
)
async def test_frame_out_of_its_order_is_corrupt(
    peer: Any, which: str, frames: list[tuple[int, object]]
) -> None:
    channel = await ready(peer)
    for kind, payload in frames:
        peer.send(kind, 1, payload)
    with anyio.fail_after(BOUND), pytest.raises(SandboxCorrupted):
        await call(channel, which)


@pytest.mark.parametrize("kind", [wire.OUT, wire.EXIT, wire.CREDIT, wire.STARTED, wire.FAIL])
async def test_frame_after_the_last_is_corrupt(peer: Any, kind: int) -> None:
    channel = await ready(peer)
    for last in (wire.STARTED, {"pid": 1}), (wire.EXIT, EXIT):
        peer.send(last[0], 1, last[1])
    await call(channel, "run")
    peer.send(kind, 1, b"x" if kind == wire.OUT else {"errno": 1, "what": "", **EXIT})
    with anyio.fail_after(BOUND), pytest.raises(SandboxCorrupted):
        await call(channel, "ls")


# ----- more than was granted


async def flood(peer: Any, data: bytes) -> None:
    """Send from a thread, for a socket takes less than all of it."""

    def send() -> None:
        with suppress(OSError):  # the host has had enough
            peer.socket.sendall(data)

    await anyio.to_thread.run_sync(send, abandon_on_cancel=True)


def held_output(process: GuestProcess) -> tuple[int, int]:
    """Bytes and pieces of output that a process holds unread."""
    pieces = vars(process)["_segments"]
    return sum(len(data) for _, data in pieces), len(pieces)


def held_content(reading: Reading) -> tuple[int, int]:
    pieces = vars(reading)["_pieces"]
    return sum(map(len, pieces)), len(pieces)


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 18, 1 << 20])
@pytest.mark.parametrize("streams", [(wire.OUT,), (wire.OUT, wire.ERR)])
async def test_output_beyond_the_window_is_corrupt_and_none_is_held_beyond_it(
    peer: Any, size: int, streams: tuple[int, ...]
) -> None:
    channel = await ready(peer)
    peer.send(wire.STARTED, 1, {"pid": 1})
    process: Any = await Sandbox(channel).start(COMMAND)
    count = OUTPUT_WINDOW // size + 2
    frames = b"".join(
        peer.frame(streams[number % len(streams)], 1, b"x" * size) for number in range(count)
    )
    async with anyio.create_task_group() as group:
        group.start_soon(flood, peer, frames)
        # It waits for the end and reads nothing meanwhile.
        with anyio.fail_after(BOUND), pytest.raises(SandboxCorrupted):
            await process.wait()
        group.cancel_scope.cancel()
    held, pieces = held_output(process)
    assert OUTPUT_WINDOW - size < held <= OUTPUT_WINDOW
    assert pieces <= MAX_SEGMENTS + 2


@pytest.mark.parametrize("size", [10, 1000, 1 << 15, 1 << 20])
async def test_content_beyond_the_window_is_corrupt_and_none_is_held_beyond_it(
    peer: Any, size: int
) -> None:
    channel = await ready(peer)
    peer.send(wire.INFO, 1, {**INFO, "size": 1 << 40})
    reading = Reading(channel, "f")
    await reading.open()
    count = READ_WINDOW // size + 2
    async with anyio.create_task_group() as group:
        group.start_soon(flood, peer, peer.frame(wire.DATA, 1, b"x" * size) * count)
        with anyio.fail_after(BOUND), pytest.raises(SandboxCorrupted):
            await channel.wait_until(reading, lambda: reading.ended)
        group.cancel_scope.cancel()
    held, pieces = held_content(reading)
    assert READ_WINDOW - size < held <= READ_WINDOW
    assert pieces <= 200


async def test_listing_without_end_is_refused_and_none_is_held_beyond_the_bound(
    peer: Any,
) -> None:
    channel = await ready(peer)
    part = peer.frame(wire.ENTRIES, 1, {"e": [[b"n%d" % n, 1, 0o100644, 1] for n in range(250)]})
    listing = Listing(channel, "d")
    async with anyio.create_task_group() as group:
        group.start_soon(flood, peer, part * (MAX_ENTRIES // 250 + 2))
        with anyio.fail_after(BOUND), pytest.raises(FileSystemError, match="more entries"):
            await listing.ask(wire.LS)
        group.cancel_scope.cancel()
    assert len(listing.entries) <= MAX_ENTRIES
    channel.close()


async def test_names_beyond_any_directory_are_not_held(peer: Any) -> None:
    channel = await ready(peer)
    part = peer.frame(wire.ENTRIES, 1, {"e": [[b"n" * 1000, 1, 0o100644, 1]] * 900})
    listing = Listing(channel, "d")
    async with anyio.create_task_group() as group:
        group.start_soon(flood, peer, part * (MAX_LISTING // len(part) + 2))
        with anyio.fail_after(BOUND), pytest.raises(FileSystemError, match="more entries"):
            await listing.ask(wire.LS)
        group.cancel_scope.cancel()
    assert sum(len(info.path) for info in listing.entries) <= MAX_LISTING
    channel.close()


async def test_flood_of_tiny_frames_lets_other_tasks_run(peer: Any) -> None:
    channel = await ready(peer)
    peer.send(wire.STARTED, 1, {"pid": 1})
    process: Any = await Sandbox(channel).start(COMMAND)
    frames = peer.frame(wire.OUT, 1, b"x") * 200_000 + peer.frame(wire.EXIT, 1, EXIT)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(flood, peer, frames)
            group.start_soon(other)
            await process.wait()
            group.cancel_scope.cancel()
    assert turns > 100  # 200,000 frames in parts of 1,024
    channel.close()


# ----- a guest that is silent, or slow to tell


async def test_start_that_is_never_answered_can_be_cancelled_and_ends_the_sandbox(
    peer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandboxio.guest.sandbox.ABORT_GRACE", 0.1)
    sandbox = Sandbox(await ready(peer))
    with anyio.fail_after(BOUND):
        with anyio.move_on_after(0.05) as scope:
            await sandbox.start(COMMAND)
        assert scope.cancelled_caught
    # Nobody said that the command is gone, so the sandbox had to go.
    assert sandbox.terminated


async def test_start_that_was_cancelled_and_undone_leaves_the_sandbox_alone(peer: Any) -> None:
    sandbox = Sandbox(await ready(peer))
    peer.receive()

    def undo() -> None:
        while peer.receive()[0] != wire.KILL:
            pass
        peer.send(wire.EXIT, 1, {**EXIT, "killed": 1, "status": 9})

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, undo)
            with anyio.move_on_after(0.05):
                await sandbox.start(COMMAND)
    assert not sandbox.terminated
    assert await sandbox.alive()
    sandbox.channel.close()


@pytest.mark.parametrize("which", CALLS)
async def test_lifetime_that_is_over_is_said(peer: Any, which: str) -> None:
    channel = await ready(peer)
    peer.send(wire.BYE, 0, {"reason": "lifetime"})
    peer.close()
    with anyio.fail_after(BOUND), pytest.raises(SandboxGone, match="lifetime is over"):
        await call(channel, which)


async def test_exit_while_output_is_owed_is_the_end_of_it(peer: Any) -> None:
    channel = await ready(peer)
    peer.send(wire.STARTED, 1, {"pid": 1})
    peer.send(wire.OUT, 1, b"part")
    peer.send(wire.EXIT, 1, {**EXIT, "status": 3 << 8})
    with anyio.fail_after(BOUND):
        process = await Sandbox(channel).start(COMMAND)
        chunk = await process.receive()
        assert chunk is not None
        assert chunk.data == b"part"
        assert await process.receive() is None
        assert (await process.wait()).exit_code == 3
    channel.close()


@pytest.mark.parametrize(
    ("status", "code"),
    [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (15, 143), (11 | 0x80, 139), (0x7F, 255)],
)
async def test_status_is_read_as_waitpid_gives_it(peer: Any, status: int, code: int) -> None:
    channel = await ready(peer)
    peer.send(wire.EXIT, 1, {**EXIT, "status": status})
    exit_: Any = await call(channel, "run")
    assert exit_.exit_code == code
    channel.close()


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({}, ExitCause.EXITED),
        ({"killed": 1}, ExitCause.KILLED),
        ({"killed": 1, "deadline": 1}, ExitCause.TIMED_OUT),
        ({"full": 1}, ExitCause.DISK_FULL),
        ({"full": 1, "killed": 1}, ExitCause.KILLED),
    ],
)
async def test_cause_is_what_the_guest_saw(
    peer: Any, fields: dict[str, int], cause: ExitCause
) -> None:
    channel = await ready(peer)
    peer.send(wire.EXIT, 1, {**EXIT, **fields})
    exit_: Any = await call(channel, "run")
    assert exit_.cause is cause
    channel.close()


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EAGAIN, ProcessLimitExceeded),
        (errno.ENOMEM, OutOfMemory),
        (errno.ENOSPC, DiskFull),
        (errno.EACCES, FileSystemError),
        (4095, FileSystemError),
        (0, FileSystemError),
    ],
)
async def test_failed_start_is_told_by_its_number(
    peer: Any, number: int, kind: type[SandboxError]
) -> None:
    channel = await ready(peer)
    peer.send(wire.FAIL, 1, {"errno": number, "what": "x"})
    with anyio.fail_after(BOUND), pytest.raises(kind):
        await call(channel, "run")
    assert not channel.failed
    channel.close()


# ----- anything at all


def frames() -> st.SearchStrategy[bytes]:
    """Frames that look right more often than not, so that some get far."""
    idents = st.sampled_from([0, 1, 1, 1, 1, 2, 1 << 31])
    kinds = st.sampled_from([1, 3, 4, 11, 14, 15, 18, 20, 31, 32, 40, 41, 42]) | st.integers(0, 255)
    keys = st.sampled_from(
        ["status", "killed", "empty", "deadline", "full", "pid", "n", "e", "size", "mode", "mtime",
         "errno", "what", "reason", "v", "workdir", "remaining", "secrets"]
    )  # fmt: skip
    numbers = st.integers(-3, 3) | st.integers(-(10**20), 10**20) | st.just(0)
    entry = st.lists(numbers | st.binary(max_size=4), min_size=3, max_size=5)
    values = numbers | st.binary(max_size=9) | st.lists(entry | numbers, max_size=3)
    whole = st.just(EXIT) | st.just(INFO) | st.just({"errno": 2, "what": ""})
    fields = whole | st.dictionaries(keys, values, max_size=9)
    payloads = st.binary(max_size=30) | fields.map(wire.encode)

    def pack(kind: int, ident: int, payload: bytes, length: int | None) -> bytes:
        size = len(payload) if length is None else length
        return wire.HEADER.pack(size, kind, ident) + payload

    lengths = st.none() | st.none() | st.none() | st.integers(0, (1 << 32) - 1)
    return st.builds(pack, kinds, idents, payloads, lengths)


streams = st.lists(frames() | st.binary(max_size=20), max_size=12).map(b"".join)


EACH = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@EACH
@given(which=st.sampled_from(CALLS), data=streams)
async def test_any_answer_ends_the_call(peers: Callable[[], Any], which: str, data: bytes) -> None:
    peer = peers()
    channel = await ready(peer)
    peer.socket.sendall(data)
    peer.close()
    with anyio.fail_after(BOUND):
        with suppress(SandboxError):
            await call(channel, which)
        # What is left of the stream may be read by the next call, but no call survives its end.
        with suppress(SandboxError):
            await call(channel, "ls")
        with pytest.raises(SandboxGone):
            await call(channel, "ls")
    assert not vars(channel)["_operations"]
    splitter = vars(vars(channel)["_splitter"])
    assert not splitter["_rest"]
    assert not splitter["_parts"]
    assert not vars(channel)["_unsent"]


@EACH
@given(data=streams)
async def test_any_greeting_ends_the_create(peers: Callable[[], Any], data: bytes) -> None:
    peer = peers()
    peer.socket.sendall(data)
    peer.close()
    for init in (INIT, None):
        with anyio.fail_after(BOUND):
            try:
                channel = await GuestChannel.open(peer.transport, init)
            except (SandboxGone, CreationError):
                continue
            channel.close()


@settings(EACH, max_examples=40)
@given(cuts=st.lists(st.integers(1, 400), max_size=8))
async def test_frames_may_be_cut_anywhere(peers: Callable[[], Any], cuts: list[int]) -> None:
    peer = peers()
    hello = {"v": 1, "pid": 1, "workdir": "/w", "remaining": 9, "secrets": []}
    greeting = peer.frame(wire.HELLO, 0, hello) + peer.frame(wire.READY, 0)
    answer = b"".join(
        [
            peer.frame(wire.STARTED, 1, {"pid": 7}),
            peer.frame(wire.OUT, 1, b"out" * 20),
            peer.frame(wire.ERR, 1, b"err"),
            peer.frame(wire.EXIT, 1, EXIT),
        ]
    )

    async def drip(data: bytes) -> None:
        places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        for start, end in pairwise(places):
            await anyio.wait_all_tasks_blocked()  # the host has taken what was sent
            peer.socket.sendall(data[start:end])

    seen = {"stdout": b"", "stderr": b""}
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(drip, greeting)
            channel = await GuestChannel.open(peer.transport, INIT)
            group.start_soon(drip, answer)
            process = await Sandbox(channel).start(COMMAND)
            while (chunk := await process.receive()) is not None:
                seen[chunk.stream] += chunk.data
            assert (await process.wait()).exit_code == 0
            channel.close()
    assert seen == {"stdout": b"out" * 20, "stderr": b"err"}
