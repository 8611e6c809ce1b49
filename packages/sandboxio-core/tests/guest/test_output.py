"""Output of commands: nothing lost, nothing merged, nothing unbounded."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxio.errors import OutputLimitExceeded
from sandboxio.protocols import AsyncSandbox

KIB, MIB = 1 << 10, 1 << 20

BOUND = 60
"""Seconds for what takes a few; the machine may be busy."""


@pytest.fixture
def sandbox(shared_sandbox: AsyncSandbox) -> AsyncSandbox:
    """No test here needs one of its own."""
    return shared_sandbox


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (r"printf '\377\376\000'", "\\xff\\xfe\0"),
        ("printf x", "x"),
        ("true", ""),
        (r"printf 'a\rb\rc'", "a\rb\rc"),
        (r"printf 'a\r\nb\n\n'", "a\r\nb\n\n"),
        (r"printf '\000\000'", "\0\0"),
        (r"printf '\360\237'", "\\xf0\\x9f"),
    ],
)
async def test_output_is_what_was_written(
    sandbox: AsyncSandbox, command: str, expected: str
) -> None:
    result = await sandbox.run(command)
    assert (result.stdout, result.stderr) == (expected, "")
    result = await sandbox.run(f"{command} >&2")
    assert (result.stdout, result.stderr) == ("", expected)


async def test_character_in_four_writes_with_another_stream_between_is_one(
    sandbox: AsyncSandbox,
) -> None:
    code = (
        "import os\n"
        "for byte in '😀'.encode():\n"
        "    os.write(1, bytes([byte])); os.write(2, b'line\\n')\n"
    )
    result = await sandbox.run_code(code)
    assert (result.stdout, result.stderr) == ("😀", "line\n" * 4)


async def test_many_characters_of_three_bytes(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run_code("print('€' * 100_000, end='')")
    assert result.stdout == "€" * 100_000


async def test_much_on_one_stream_then_a_line_on_the_other(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run("head -c 20000000 /dev/zero; echo last >&2; exit 1")
    assert len(result.stdout) == 20_000_000
    assert (result.stderr, result.exit_code) == ("last\n", 1)


async def test_order_within_a_stream_is_kept(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run("seq 100000; seq 100000 >&2")
    expected = "".join(f"{number}\n" for number in range(1, 100_001))
    assert result.stdout == expected
    assert result.stderr == expected


async def test_streams_are_told_apart_and_complete(sandbox: AsyncSandbox) -> None:
    seen = {"stdout": b"", "stderr": b""}
    async with sandbox.stream("for i in 1 2 3; do echo o$i; echo e$i >&2; done; exit 4") as process:
        async for chunk in process:
            assert chunk.data
            seen[chunk.stream] += chunk.data
        result = await process.wait()
    assert seen == {"stdout": b"o1\no2\no3\n", "stderr": b"e1\ne2\ne3\n"}
    assert (result.exit_code, result.stdout, result.stderr, result.streamed) == (4, "", "", True)


async def test_output_at_the_bound_is_whole_and_one_more_byte_is_refused(
    sandbox: AsyncSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_MAX_OUTPUT_MB", "1")
    split = "head -c 1000000 /dev/zero; head -c 48576 /dev/zero >&2"
    result = await sandbox.run(split)
    assert (len(result.stdout), len(result.stderr)) == (1_000_000, 48_576)
    with pytest.raises(OutputLimitExceeded) as caught:
        await sandbox.run(f"{split}; printf x")
    assert caught.value.limit == "SBX_MAX_OUTPUT_MB"
    assert caught.value.value == 1
    assert (await sandbox.run(["true"])).ok


async def test_refused_output_carries_its_head_and_its_tail(
    sandbox: AsyncSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_MAX_OUTPUT_MB", "1")
    with pytest.raises(OutputLimitExceeded) as caught, anyio.fail_after(BOUND):
        await sandbox.run("echo head; yes; sleep 1000")
    text = caught.value.stdout
    assert text.startswith("head\ny\n")
    assert "output left out" in text
    assert set(text[-KIB:]) == set("y\n")
    assert len(text) < 200 * KIB


async def test_slow_reader_slows_its_own_command_and_nothing_else(sandbox: AsyncSandbox) -> None:
    native: Any = sandbox.native
    progress: Path = native.workdir / "progress"
    code = (
        "import os\n"
        "total = 0\n"
        "file = os.open('progress', os.O_WRONLY | os.O_CREAT)\n"
        "while True:\n"
        "    total += os.write(1, b'x' * 65536)\n"
        "    os.pwrite(file, b'%20d' % total, 0)\n"
    )
    async with sandbox.stream([sys.executable, "-c", code]) as process:
        with anyio.fail_after(BOUND):
            for _ in range(100):  # what the command could use to get far ahead
                assert (await sandbox.run(["true"])).ok
            assert number(progress) < 8 * MIB
            taken = 0
            async for chunk in process:
                taken += len(chunk.data)
                if taken > 64 * MIB:
                    break
        assert number(progress) - taken < 8 * MIB


def number(path: Path) -> int:
    return int(path.read_text())


async def test_stdin_and_output_interleave(sandbox: AsyncSandbox) -> None:
    async with sandbox.stream(["cat"]) as process:
        with anyio.fail_after(BOUND):
            await process.send("first")
            chunk = await anext(aiter(process))
            assert chunk.data == b"first"
            await process.send(b"second")
            await process.send_eof()
            assert [c.data async for c in process] == [b"second"]
        assert (await process.wait()).exit_code == 0


async def test_sends_at_the_same_time_are_not_mixed(sandbox: AsyncSandbox) -> None:
    async with sandbox.stream("cat > sent") as process:
        await process.send(b"")
        with anyio.fail_after(BOUND):
            async with anyio.create_task_group() as group:
                for letter in b"abcd":
                    group.start_soon(process.send, bytes([letter]) * (3 * MIB))
            await process.send_eof()
            await process.wait()
    data = await sandbox.files.read("sent")
    runs = [data[at : at + 3 * MIB] for at in range(0, len(data), 3 * MIB)]
    assert sorted(runs) == [bytes([letter]) * (3 * MIB) for letter in b"abcd"]


async def test_much_output_of_two_commands_at_once_is_what_was_written(
    sandbox: AsyncSandbox,
) -> None:
    """Large pieces go by another way than small ones; neither overtakes the other."""
    code = (
        "import os, sys\n"
        "seed, at = int(sys.argv[1]), 0\n"
        "while at < 400:\n"
        "    size = (at * 7919 + seed) % 200000 + 1\n"
        "    data = memoryview(bytes([at % 251 + 1]) * size)\n"
        "    while data:\n"
        "        data = data[os.write(1, data) :]\n"
        "    os.write(2, b'%d\\n' % at)\n"
        "    at += 1\n"
    )
    await sandbox.files.write("much.py", code)

    async def check(seed: int) -> None:
        expected = b"".join(
            bytes([at % 251 + 1]) * ((at * 7919 + seed) % 200000 + 1) for at in range(400)
        )
        got = {"stdout": bytearray(), "stderr": bytearray()}
        async with sandbox.stream([sys.executable, "much.py", str(seed)]) as process:
            async for chunk in process:
                got[chunk.stream] += chunk.data
            assert (await process.wait()).exit_code == 0
        assert got["stdout"] == expected
        assert got["stderr"].decode() == "".join(f"{at}\n" for at in range(400))

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for seed in (3, 77777):
                group.start_soon(check, seed)


async def test_command_that_takes_its_output_back_harms_only_itself(
    sandbox: AsyncSandbox,
) -> None:
    """It may open the other end of its own pipe, and then the guest gets less than it saw there."""
    code = (
        "import os, threading\n"
        "back = os.open('/proc/self/fd/1', os.O_RDONLY)\n"
        "def steal():\n"
        "    while True:\n"
        "        os.read(back, 5000)\n"
        "threading.Thread(target=steal, daemon=True).start()\n"
        "for _ in range(600):\n"
        "    os.write(1, bytes(50000))\n"
        "os._exit(7)\n"
    )
    await sandbox.files.write("thief.py", code)
    with anyio.fail_after(BOUND):
        async with sandbox.stream([sys.executable, "thief.py"]) as process:
            got = 0
            async for chunk in process:
                got += len(chunk.data)
                assert not chunk.data.strip(b"\0")
            assert (await process.wait()).exit_code == 7
        assert 0 < got <= 600 * 50000
        assert (await sandbox.run("echo still here")).stdout == "still here\n"
