"""The model of Python: what it runs, it runs as Python does, and the rest it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxio import NetworkPolicy, OutOfMemory
from sandboxio_testing import FakeBackend
from sandboxio_testing._fake.python.model import CANNOT_MODEL

MODELLED = [
    "print('hello', 2, sep='-', end='!')",
    "x = 6\ny = 7\nprint(x * y, x / y, x // 4, -x % 4, 2 ** 10)",
    "a, (b, c) = 1, (2, 3)\nprint(a, b, c)",
    "name = 'wörld'\nprint(f'hello {name!r:>10} {3.14159:.2f} {1 + 1}')",
    "print([1, 'a', None, True], {'k': (1,)}, {3}, 1 < 2 < 3, not 1, 'a' in 'abc')",
    "d = {}\nd['x'] = 1\nd['x'] += 2\nprint(d, d.get('y', 0), len(d))",
    "for i in range(3):\n    if i == 1:\n        continue\n    print(i)\nelse:\n    print('end')",
    "n = 0\nwhile True:\n    n += 1\n    if n > 3:\n        break\nprint(n)",
    "try:\n    1 / 0\nexcept (ValueError, ZeroDivisionError) as error:\n    print('caught', error)\nfinally:\n    print('finally')",
    "try:\n    {}['k']\nexcept KeyError as error:\n    print(repr(error))",
    "print('a,b'.split(','), ' x '.strip().upper(), '-'.join(['1', '2']))",
    "import sys\nprint('err', file=sys.stderr)\nsys.exit(3)",
    "import sys\nsys.exit('message')",
    "raise SystemExit",
    "raise ValueError('bad')",
    "1 / 0",
    "print(undefined)",
    "[][1]",
    "int('x')",
    "assert 1 == 2, 'no'",
    "print('unclosed'",
    "x = = 3",
    "  indented = 1",
    "print('before')\n1 +",
    "import json\nprint(json.dumps({'a': [1, 2]}), json.loads('[3]'))",
    "import math\nprint(math.sqrt(16), math.floor(2.7))",
    "with open('f.txt', 'w') as file:\n    file.write('content')\nprint(open('f.txt').read())",
    "open('missing.txt')",
    "print(sum([1, 2, 3]), max(4, 9), sorted([3, 1, 2]), list(zip([1], [2])), abs(-3))",
    "s = 'abcdef'\nprint(s[1:4], s[::-1], s[-1])",
    "print('%s is %d' % ('x', 3), '{} {}'.format(1, 2))",
    "import os\nprint(os.path.join('a', 'b'), os.path.exists('nothing'))",
    "print(b'abc'.decode(), len('x' * 1000), 10 ** 20)",
]

BEYOND = [
    "def f():\n    return 1\nprint(f())",
    "class A:\n    pass",
    "print([x for x in [1, 2]])",
    "print((lambda: 1)())",
    "import pandas",
    "import subprocess\nsubprocess.run(['true'])",
    "from os import system",
    "import os\nos.system('true')",
    "print(eval('1 + 1'))",
    "exec('x = 1')",
    "__import__('os')",
    "print((1).__class__)",
    "print(''.join.__self__)",
    "global x\nx = 1",
    "async def main(): pass",
    "match 1:\n    case 1:\n        pass",
    "print(9 ** 9 ** 9)",
    "print('%1000000000d' % 1)",
    "print(f'{1:1000000000}')",
    "print(list(range(10 ** 9)))",
    "print('{0.real}'.format(1))",
    "print(*[1], **{})",
    "x = [1]\ndel x[0]",
    "import time\ntime.strftime('%Y')",
    "with 3 as x:\n    pass",
]


def in_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a real interpreter."""
    return subprocess.run(
        [sys.executable, "-I", "-"],
        input=code,
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PYTHONUTF8": "1"},
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("code", MODELLED)
async def test_code_does_what_it_does_in_python(
    code: str, sbx_fake: FakeBackend, tmp_path: Path
) -> None:
    real = in_python(code, tmp_path)
    found = await sbx_fake.sandbox.run_code(code)
    assert (found.exit_code, found.stdout) == (real.returncode, real.stdout), found.stderr
    assert bool(found.stderr) == bool(real.stderr)
    if real.stderr:
        # The last line names the error, in both.
        assert (
            found.stderr.splitlines()[-1].split(":")[0]
            == real.stderr.splitlines()[-1].split(":")[0]
        )


@pytest.mark.parametrize("code", BEYOND)
async def test_code_that_the_fake_does_not_know_fails_and_says_so(
    code: str, sbx_fake: FakeBackend
) -> None:
    result = await sbx_fake.sandbox.run_code(code)
    assert result.exit_code == CANNOT_MODEL
    assert "cannot model" in result.stderr


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.sampled_from(
            ["1", "'a'", "x", "f(x)", "[]", "(yield)", "x.y", "lambda: 0", "{**x}", "*a"]
        ),
        lambda inner: st.builds(
            "{} {} {}".format,
            inner,
            st.sampled_from(["+", "and", "if", "for", "=", ":", "\n"]),
            inner,
        ),
        max_leaves=6,
    )
)
def test_no_text_at_all_passes_that_python_would_not_run(code: str) -> None:
    """Whatever the code is: exit 0 means that Python gives the same."""

    async def run() -> tuple[int, str]:
        result = await FakeBackend().sandbox.run_code(code)
        return result.exit_code, result.stdout

    exit_code, stdout = anyio.run(run)
    if exit_code == 0:
        real = in_python(code, Path("/"))
        assert (real.returncode, real.stdout) == (0, stdout)


async def test_variables_stay_in_their_context(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox
    await sandbox.run_code("x = 1", context_id="a")
    await sandbox.run_code("x = 2", context_id="b")
    assert (await sandbox.run_code("print(x)", context_id="a")).stdout == "1\n"
    assert "NameError" in (await sandbox.run_code("print(x)")).stderr


async def test_memory_that_is_not_there_is_an_error_of_its_own(sbx_fake: FakeBackend) -> None:
    with pytest.raises(OutOfMemory):
        await sbx_fake.sandbox.run_code("x = bytearray(2 ** 31)")
    with pytest.raises(OutOfMemory):
        await sbx_fake.sandbox.run_code("a = []\nwhile True:\n    a.append(bytearray(10 ** 7))")


SERVER = """
import socket
with socket.socket() as listener:
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    with open("port", "w") as file:
        file.write(str(listener.getsockname()[1]))
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(connection.recv(100))
"""
CLIENT = """
import socket
with socket.create_connection(({host!r}, {port})) as client:
    client.settimeout(3)
    client.sendall(b"ping")
    print(client.recv(100).decode())
"""


async def test_sockets_reach_the_sandbox_itself_and_what_the_policy_lets_them(
    sbx_fake: FakeBackend,
) -> None:
    sandbox = sbx_fake.sandbox
    await sandbox.files.write("server.py", SERVER)
    await sandbox.run("python3 server.py > log 2>&1 &")
    port = int(await sandbox.files.read("port"))
    for _ in range(2):
        result = await sandbox.run_code(CLIENT.format(host="localhost", port=port))
        assert result.stdout == "ping\n", result.stderr
    for host, other in (("localhost", port + 1), ("192.0.2.7", 80), ("example.com", 80)):
        result = await sandbox.run_code(CLIENT.format(host=host, port=other))
        assert result.exit_code == 1
        assert "Error" in result.stderr
    async with await sbx_fake.create(network=NetworkPolicy(allow=("example.com",))) as allowed:
        assert (
            await allowed.run_code(CLIENT.format(host="example.com", port=80))
        ).stdout == "ping\n"
        assert (await allowed.run_code(CLIENT.format(host="localhost", port=port))).exit_code == 1


async def test_processes_are_seen_in_proc(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox
    await sandbox.run("sleep 1000 &", env={"MARK": "here"})
    (pid,) = sbx_fake.processes(sandbox.id)
    assert await sandbox.files.read(f"/proc/{pid}/cmdline") == b"sleep\x001000\x00"
    assert b"MARK=here\x00" in await sandbox.files.read(f"/proc/{pid}/environ")
    assert (await sandbox.run(["cat", "/proc/self/cmdline"])).stdout == "cat\0/proc/self/cmdline\0"
    assert (await sandbox.run(["kill", str(pid)])).ok
    assert (await sandbox.run("ls -d /proc/[0-9]* | wc -l")).stdout == "3\n"
    assert sbx_fake.processes(sandbox.id) == {}


async def test_host_is_out_of_reach(sbx_fake: FakeBackend, tmp_path: Path) -> None:
    for code in (
        f"open({str(tmp_path)!r} + '/x', 'w')",
        f"import os\nos.listdir({str(tmp_path)!r})",
    ):
        result = await sbx_fake.sandbox.run_code(code)
        assert result.exit_code == 1
        assert "No such file" in result.stderr
