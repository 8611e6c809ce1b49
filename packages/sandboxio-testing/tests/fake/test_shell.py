"""The small shell: what it does is what the `sh` of this machine does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sandboxio_testing import FakeBackend

SAME = [
    "echo one; echo two >&2; exit 3",
    "printf '%s-%d\\n' a 3 b 4",
    "printf '%5.1f|%-4s|%04x\\n' 2.25 ab 255",
    "true && echo yes || echo no",
    "false && echo yes || echo no",
    "! true; echo $?",
    "a=1 b='two words'; echo \"$b\" $a ${c:-none} ${#b} ${b% *} ${b#* }",
    "f=/a/b.tar.gz; echo ${f##*/} ${f%%.*} ${f%.gz}",
    "x='a  b   c'; echo $x; echo \"$x\"; set -- $x; echo $#",
    'IFS=:; x=a:b::c; set -- $x; echo $# "$3"',
    "echo $((1 + 2 * 3)) $((7 / 2)) $((-7 % 3)) $((5 > 3 && 2 > 1)) $((x = 4)) $x",
    "echo $(echo inner; echo more) `echo old`",
    "for i in 1 2 3; do echo $i; done | tail -n 1",
    "i=0; while [ $i -lt 3 ]; do i=$((i + 1)); [ $i = 2 ] && continue; echo $i; done",
    "until [ -e made ]; do echo once; : > made; done",
    "while true; do break; done; echo out",
    "case abc in x) echo 1 ;; a*|b) echo 2 ;; *) echo 3 ;; esac",
    "f() { echo \"$1\" $#; return 4; }; f 'a b' c; echo $?",
    "cat <<END\nvalue $((1 + 1))\nEND\ncat <<'END'\nraw $x\nEND",
    "echo a > f; echo b >> f; cat f; cat < f | wc -l",
    "{ echo out; echo err >&2; } 2>&1 | sort",
    "(cd /; pwd); pwd | grep -c .",
    "echo x > 'a b'; echo *; rm 'a b'; echo *",
    "mkdir -p d/e; echo 1 > d/e/f; ls d; ls d/e; [ -d d ] && [ -f d/e/f ] && echo ok",
    "ln -s d/e link 2>/dev/null; [ -L link ] && readlink link",
    'seq 3 | while read line; do echo "<$line>"; done',
    "yes | head -n 2",
    "seq 1 20 | tail -n +18",
    "echo 'b a' | tr ' ' '\\n' | sort",
    "trap 'echo bye' EXIT; echo hello; exit 5",
    "trap 'echo got' TERM; kill -TERM $$; echo after",
    "kill -9 $$; echo never",
    "sh -c 'exit 7'; echo $?",
    "set -e; false; echo never",
    "set -u; echo $missing; echo never",
    "sleep 0 & wait; echo $?",
    "export A=1; sh -c 'echo $A'; B=2 sh -c 'echo $B'; echo [$B]",
    "test 3 -gt 2; echo $?; [ a = b ]; echo $?; [ -n '' ]; echo $?; [ ! -e nothing ]; echo $?",
    "eval 'echo $((2 * 3))'; command -v nothing-here; echo $?",
    "echo \"quote: ' and \\\" and \\$\" 'single $x' back\\ slash",
    "exec 3>&1; echo three >&3",
    "chmod 640 f 2>/dev/null || : > f && chmod 640 f; stat -c %a f",
    "basename /a/b.txt .txt; dirname /a/b/c",
    "dd if=/dev/zero of=z bs=1k count=3 2>/dev/null; wc -c < z",
    "echo 'a.b' | grep -F '.' ; echo abc | grep -c x; echo $?",
    "env -i A=1 env; printenv NOTHING; echo $?",
    "xargs echo < /dev/null; seq 3 | xargs echo",
    "( exit 4 ); echo $?",
    "echo unterminated 'quote",
    "if; then",
]


def in_shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in the shell of this machine."""
    return subprocess.run(
        ["sh", "-c", script],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.mark.skipif(shutil.which("sh") is None, reason="this machine has no sh to compare with")
@pytest.mark.parametrize("script", SAME)
async def test_script_does_what_it_does_in_a_real_shell(
    script: str, sbx_fake: FakeBackend, tmp_path: Path
) -> None:
    real = in_shell(script, tmp_path)
    expected = 128 - real.returncode if real.returncode < 0 else real.returncode
    found = await sbx_fake.sandbox.run(script)
    assert (found.exit_code, found.stdout) == (expected, real.stdout), found.stderr
    assert bool(found.stderr) == bool(real.stderr), (found.stderr, real.stderr)


@pytest.mark.parametrize("command", ["git status", "make", "pip install x", "nosuch"])
async def test_program_that_the_fake_has_not_is_127_and_says_so(
    command: str, sbx_fake: FakeBackend
) -> None:
    for given in (command, command.split()):
        result = await sbx_fake.sandbox.run(given)
        assert result.exit_code == 127
        assert "not found" in result.stderr
        assert "on_run()" in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        "ls -R",
        "head --frob",
        "curl -X POST http://a",
        "chmod g+s f",
        "seq 0.5 2",
        "find . -mtime 3",
    ],
)
async def test_option_that_the_fake_does_not_know_fails(
    command: str, sbx_fake: FakeBackend
) -> None:
    result = await sbx_fake.sandbox.run(command)
    assert result.exit_code != 0
    assert result.stderr


async def test_script_with_a_shebang_runs_and_one_without_the_bit_does_not(
    sbx_fake: FakeBackend,
) -> None:
    sandbox = sbx_fake.sandbox
    await sandbox.files.write("tool", '#!/bin/sh\necho "tool $1"\n')
    assert (await sandbox.run(["./tool", "a"])).exit_code == 126
    await sandbox.run(["chmod", "+x", "tool"])
    assert (await sandbox.run(["./tool", "a"])).stdout == "tool a\n"


async def test_server_in_the_background_is_reached_by_a_later_command(
    sbx_fake: FakeBackend,
) -> None:
    sandbox = sbx_fake.sandbox
    await sandbox.files.write("page.txt", "hello")
    await sandbox.run("nohup python3 -m http.server 8000 > log 2>&1 &")
    assert (await sandbox.run("curl -s http://localhost:8000/page.txt")).stdout == "hello"
    assert (await sandbox.run("curl -s http://localhost:8001/")).exit_code == 7


async def test_fork_bomb_meets_the_cap_and_a_timeout_ends_it(sbx_fake: FakeBackend) -> None:
    sandbox = sbx_fake.sandbox
    await sandbox.run(":(){ :|:& };:; sleep 1", timeout=30)
    assert (await sandbox.run("echo alive")).stdout == "alive\n"


@pytest.mark.parametrize("script", ["(" * 5000, "$(" * 3000, "f() { f; }; f", "`" * 999])
async def test_nesting_without_end_fails_and_harms_nobody(
    script: str, sbx_fake: FakeBackend
) -> None:
    result = await sbx_fake.sandbox.run(script)
    assert result.exit_code == 2
    assert result.stderr
