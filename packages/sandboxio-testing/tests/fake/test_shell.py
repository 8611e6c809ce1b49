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
    "set -x; echo traced; x=1; echo $x",
    "set -eu; f() { false; echo after; }; f || echo caught; f; echo never",
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
    "echo $((0x10 + 010)) $((1 ? 2 : 3)) $((~5 & 7 | 8 ^ 1)) $((1 << 3 >> 1)) $((!0)) $((-(2 - 5)))",
    "echo $((1 / 0)); echo never",
    "echo $((2 +)); echo never",
    "x=5; echo $((x % 3)) $((x <= 5)) $((x != 5 || 0)) $((+x))",
    "[ -z '' -a 1 -eq 1 ] && echo and; [ a = b -o 2 -ge 1 ] && echo or; [ ! -d / ] || echo root",
    "[ 1 -ne 2 ] && [ 1 -lt 2 ] && [ 2 -le 2 ] && echo numbers; [ x -eq 1 ]; echo $?",
    "[ a '<' b ]; [ \\( a = a \\) ]; echo $?; test; echo $?; [ a; echo $?",
    ": > f; chmod 400 f; [ -r f ] && echo readable; [ -s f ] || echo empty; [ -x f ] || echo plain",
    "printf '%s|%b|%c|%%|%x|%o\\n' 'a b' 'x\\ty' word 255 8; printf 'no args %s %d\\n'",
    "printf '%d %d\\n' \"'a\" 010",
    "mkdir d; touch d/a d/b; ls d; rmdir d; echo $?; rm d; echo $?; rm -r d; ls d; echo $?",
    "mkdir a/b; echo $?; mkdir -p a/b && mkdir a; echo $?; rmdir a/b a; ls",
    "echo 1 > a; cp a b; mv b c; cat c; ls; mkdir d; mv a c d; ls d; cp d/a d/c .; ls",
    "mkdir d; echo x > d/f; cp d e; echo $?; cp -r d e; cat e/f; rm -rf d e nothing; ls",
    "echo x > f; ln f g; echo y >> g; cat f; rm f; cat g; ln -s g l; cat l; rm l; ls",
    "touch f; chmod u+x,g-r f 2>/dev/null; chmod 755 f; chmod u-w f; chmod a+r f; stat -c %a f; chmod u=rw f; stat -c '%a %s %n' f",
    "ln -s a b; ln -s b a; cat a; echo $?; readlink -f /; readlink nothing; echo $?",
    "truncate -s 5 f; wc -c < f; truncate -s 2 f; wc -c < f",
    "mkdir -p x/y; touch x/y/z x/a; find x | sort; find x -type f -name 'z*'; find x -type d | sort",
    "touch .hidden shown; ls; ls -a | sort; ls -A; ls -d .; echo .h*; echo ?hown [s]*",
    "ls missing; echo $?; cat missing f; echo $?; cat < missing; echo $?",
    "echo abc > f; head -c 2 f; echo; tail -c 2 f; tail -c +2 f; wc f | tr -s ' ' | tr -d '\\n'",
    "printf 'b 2\\na 1\\nb 2\\n' | sort -u; printf '10\\n9\\n-1\\n' | sort -n; printf '1\\n2\\n' | sort -r",
    "printf 'one\\ntwo\\nthree\\n' > f; grep -n t f; grep -v t f; grep -q one f && echo found; grep -i TWO f; grep -c zz f; echo $?",
    "printf 'one\\n' > f; grep -l one f missing 2>/dev/null; grep -x on f; echo $?; grep -e one f",
    "seq 2 4; seq 5 -2 1; seq -s , 3; seq 3 1",
    "echo data | tee f | cat; cat f; echo more | tee -a f > /dev/null; cat f",
    "echo 'hello world' | tr a-z A-Z; echo aabb | tr -d b",
    "seq 4 | xargs -n 2 echo; echo 'a b' | xargs; true | xargs -r echo never",
    "cd /; pwd; cd - > /dev/null; cd nowhere; echo $?; cd; echo $?",
    "x=1; unset x; echo ${x-gone} ${x:-empty}; y=; echo ${y-set} ${y:-empty} ${y:+no}${x+no}; echo ${z:=new} $z",
    "echo ${q:?is not set}; echo never",
    "f() { local v=inner; echo $v; }; v=outer; f; echo $v",
    "f() { return; }; false; f; echo $?; g() { echo $#; shift; echo $1; shift 5; }; g a b",
    'set -- a b c; for x; do echo $x; done; echo $* $# $0; shift 2; echo "$@"',
    "for x in a b; do for y in 1 2; do [ $y = 2 ] && continue 2; echo $x$y; done; done; while :; do while :; do break 2; done; done; echo end",
    'read a b rest; echo "[$a][$b][$rest]"; read x || echo eof',
    "printf '1 2 3 4\\nlast' | { read a b; echo $a/$b; read c; echo $? $c; }",
    "sleep 0 & p=$!; wait $p; echo $?; wait 99999; echo $?; false & wait $!; echo $?",
    "trap 'echo one' USR1; kill -USR1 $$; trap - USR1; trap '' INT; kill -INT $$; echo alive",
    "kill -0 $$ && echo me; kill -9 999999; echo $?; kill; echo $?",
    "eval \"x='a b'\"; echo \"$x\"; echo 'echo sourced $x' > s; . ./s; . ./missing; echo never",
    "exec echo replaced; echo never",
    "exec > out; echo hidden; exec >&2; cat out",
    "echo x >&9; echo $?; echo y > /nowhere/f; echo $?; : > /; echo $?",
    "(exit 3) || echo $?; { false; }; echo $?; ! false && echo negated",
    "type nothing-here; echo $?; command echo via; command nothing-here; echo $?; which nothing-here; echo $?",
    "export A=1 B; env | grep -c '^A=1$'; env A=2 sh -c 'echo $A'; env nothing-here; echo $?",
    "basename a/b/; basename /; dirname a; dirname /a; dirname a/b/",
    "timeout 5 echo fast; timeout 0.1 sleep 5; echo $?; nohup echo kept 2>/dev/null; setsid echo session",
    "date -u +%Y > /dev/null && echo dated; date > /dev/null && echo now; hostname > /dev/null && uname -s; whoami > /dev/null; id -u > /dev/null && echo id",
    "if false; then echo 1; elif true; then echo 2; else echo 3; fi; if false; then :; fi; echo $?",
    "case 'a b' in 'a b') echo quoted ;; esac; case x in [!a-w]) echo class ;; esac; case y in esac; echo $?",
    "echo a;; echo b",
    "echo )",
    "for x in; do echo never; done; echo $?; while false; do :; done; echo $?",
    "cat <<-A\n\ttabs\n\tA\ncat <<A <<B\n1\nA\n2\nB",
    "echo a \\\n b; echo 'x' # comment\necho \"multi\nline\"",
    "x='*'; echo \"$x\" '$x' \\*; set -f; echo * $x; set +f; : > f; echo *",
    "echo \"${x:-a b}\" ${x:-a b}; echo \"$(printf 'a\\n\\n')\"; echo $(echo '*' | tr '*' x)",
    'a=\'x y\'; b=$a; echo "$b"; c="$a"z; echo $c; d=~; [ "$d" != \'~\' ] && echo tilde',
    "umask; sh -u -c 'echo $none' ; echo $?; echo 'echo from stdin' | sh; sh missing; echo $?",
    "printf 'echo $0 $1\\n' > s; sh s arg; sh -c 'echo $0 $1' name arg; sh -e -c 'false; echo never'",
    "f() { echo $(f2); }; f2() { echo nested; }; f; unset -f f; f; echo $?",
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
