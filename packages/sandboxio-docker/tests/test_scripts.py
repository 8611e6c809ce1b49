"""The shell scripts for images without Python, in each shell that they say they run in."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandboxio_docker import _scripts

MARK = "0123456789abcdef"

NOBODY_ELSE = 54321
"""A user who has no process: root's are not limited."""

RUNS = 200
AT_ONCE = 12

SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A shell, with what it takes to run a script."""
    argv = SHELLS[request.param]
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    return [*argv, "-c"]


def run(shell: list[str], *argv: str, may_fork: bool = True) -> tuple[str, str]:
    """Return what the script says around a command."""
    sleep, grep = shutil.which("sleep"), shutil.which("grep")
    assert sleep is not None
    assert grep is not None
    script = [_scripts.RUN, "sandboxio", MARK, "30", sleep, grep, _scripts.KILL, "/", ""]

    def limit() -> None:
        if os.geteuid() == 0:
            os.setuid(NOBODY_ELSE)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))

    done = subprocess.run(
        [*shell, *script, *argv],
        capture_output=True,
        check=False,
        timeout=60,
        text=True,
        preexec_fn=None if may_fork else limit,
        start_new_session=True,
    )
    return done.stdout, done.stderr.replace(MARK, "mark")


def test_command_stands_between_its_marks(shell: list[str]) -> None:
    """Many at once, as what is forked may be ended before it begins."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        command = ["sh", "-c", "echo out; echo err >&2; exit 3"]
        runs = list(pool.map(lambda _: run(shell, *command), range(RUNS)))
    for out, err in runs:
        assert out == f"out\n\x1e{MARK}\x1e"
        assert re.fullmatch(r"\x1emark\x1e \d+\nerr\n\x1emark\x1e 3 (0|143)\n", err), repr(err)


def test_shell_that_may_not_fork_says_so(shell: list[str]) -> None:
    """If this fails, a full process cap looks like a connection that broke."""
    assert run(shell, "true", may_fork=False) == ("", "\x1emark\x1e unforked\n")
