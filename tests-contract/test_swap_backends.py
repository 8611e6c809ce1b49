"""One downstream program gives the same output on every backend: docs/examples/swap_backends.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dockerd import PYTHON_IMAGE
from sandboxio_testing.e2b import LocalE2B

PROGRAM = Path(__file__).parents[1] / "docs" / "examples" / "swap_backends.py"


OUTPUT = r"""
echo: 0 'two words $HOME\n'
shell: 3 'out\n' 'err\n'
files: [('words.txt', 12)]
read: b'b a b\nc b a\n'
stdin: 'given\n'
env: 'it\'s "me"\n'
stream: 0 b'b a b\nc b a\n'
deadline: SBX_E1302 True
missing: SBX_E1701 missing.txt
left
"""


def output(dsn: str) -> str:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), dsn],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("dsn", ["fake://", "local://"])
def test_output_is_the_same_here(dsn: str) -> None:
    assert output(dsn) == OUTPUT.lstrip()


@pytest.mark.docker
def test_output_is_the_same_in_a_container() -> None:
    assert output(f"docker://{PYTHON_IMAGE}") == OUTPUT.lstrip()


def test_output_is_the_same_on_a_double_of_e2b(local_e2b: LocalE2B) -> None:
    assert output("e2b://") == OUTPUT.lstrip()
    assert not local_e2b.sandboxes


@pytest.mark.e2b
@pytest.mark.skipif(
    "E2B_API_URL" in os.environ, reason="e2b: E2B_API_URL points elsewhere than to E2B"
)
def test_output_is_the_same_on_e2b() -> None:
    assert output("e2b://") == OUTPUT.lstrip()
