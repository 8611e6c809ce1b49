"""The end of the interpreter, with sandboxes that were never closed."""

from __future__ import annotations

from typing import Any

import pytest

CREATE = """
sandbox = sandboxio.create_sync("host://", timeout=300)
assert sandbox.run(["true"]).ok
"""

# Transfers use worker threads of the loop, which Python would wait for.
TRANSFER = """
(driver.folder / "up").write_text("content")
sandbox.files.upload(driver.folder / "up", "file")
"""

REPORT = """
class Report:
    def __del__(self):
        pass
import atexit
atexit.register(lambda: print("live", len(driver.live), flush=True))
"""

ENDINGS = {
    "falls off the end": "",
    "exits": "sys.exit(0)",
    "in a function": "def main():\n    inner = sandboxio.create_sync('host://')\n    sys.exit(0)\nmain()",
    "a stream is open": "process = sandbox.stream(['sleep', '200']).__enter__()",
    # It is told that the sandbox is gone. If it printed that, Python could not flush stderr meanwhile.
    "a command runs in a daemon thread": (
        "threading.excepthook = lambda _: None\n"
        "threading.Thread(target=sandbox.run, args=(['sleep', '200'],), daemon=True).start()"
    ),
    "killed and not closed": "sandbox.kill()",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_a_sandbox_that_was_not_closed_ends_with_the_program(program: Any, ending: str) -> None:
    done = program.run(REPORT + CREATE + TRANSFER + ending)
    assert (done.stdout, done.stderr, done.returncode) == ("live 0\n", "", 0)


def test_an_error_ends_the_program_as_usual(program: Any) -> None:
    done = program.run(REPORT + CREATE + TRANSFER + "1 / 0")
    assert done.stderr.strip().endswith("ZeroDivisionError: division by zero")
    assert done.stderr.count("Traceback") == 1
    assert (done.stdout, done.returncode) == ("live 0\n", 1)


def test_many_sandboxes_end_together(program: Any) -> None:
    code = "kept = [sandboxio.create_sync('host://') for _ in range(8)]"
    done = program.run(REPORT + CREATE + code)
    assert (done.stdout, done.stderr, done.returncode) == ("live 0\n", "", 0)


def test_a_thread_that_outlives_the_main_thread_keeps_its_sandbox(program: Any) -> None:
    code = """
import time
def work():
    threading.main_thread().join()
    # Longer than the portal takes to look whether anybody is left.
    time.sleep(1.5)
    print(sandbox.run(["echo", "still here"]).stdout, end="", flush=True)
threading.Thread(target=work).start()
"""
    done = program.run(REPORT + CREATE + code)
    assert (done.stdout, done.stderr, done.returncode) == ("still here\nlive 0\n", "", 0)


def test_an_exit_that_skips_everything_leaves_the_sandbox_to_its_lease(program: Any) -> None:
    done = program.run(
        CREATE + "import os; print(sandbox.native.process.pid, flush=True); os._exit(3)"
    )
    assert (done.returncode, done.stderr) == (3, "")
    # The fixture removes its folder, and `communicate()` came to an end: nothing of it held a pipe.
    assert done.stdout.strip().isdigit()


def test_a_closed_sandbox_costs_the_exit_nothing(program: Any) -> None:
    code = """
sandbox.close()
assert [t for t in threading.enumerate() if "sandboxio" in t.name] == [], threading.enumerate()
"""
    done = program.run(CREATE + TRANSFER + code)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
