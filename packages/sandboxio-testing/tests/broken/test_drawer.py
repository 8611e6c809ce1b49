"""The contract suite finds each fault in a drawer of broken backends, and blames nothing else.

Each broken backend is held to the clauses that it has to fail and to a sample of all others; with
``SBX_PROOF="*"``, or other patterns of clauses, to these too. One event loop is enough: the suite is what is tested here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = next(parent for parent in HERE.parents if (parent / "tools" / "dev.py").is_file())
TEMPLATE = ROOT / "docs" / "adapter-template" / "src"

sys.path[:0] = [str(HERE), str(TEMPLATE)]  # the drawer is a folder of modules, not a package

import drawer  # noqa: E402

from sandboxio_testing.clauses import CLAUSES  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HAS_TO_BE_THERE = {
    "wrong exit code",
    "stderr merged into stdout",
    "last line lost",
    "non-UTF-8 raises",
    "timeout ignored",
    "timeout kills the sibling",
    "timeout leaves a setsid grandchild",
    "cancel leaks",
    "early break leaks",
    "create cancelled leaks",
    "deny does not deny",
    "cap not applied",
    "unset cap accepted",
    "allowlist ignored",
    "undeclared capability works silently",
    "a declared capability raises",
    "builtin TimeoutError escapes",
    "raw provider exception escapes",
    "__cause__ lost",
    "secret in a repr",
    "secret in an event",
    "secret split over chunks",
    "no record for one operation",
    "labels dropped",
    "connect creates",
    "kill not idempotent",
    "relative paths differ between files and run",
    "missing file returns empty",
    "host network given under deny",
    "no lifetime bound",
    "privileged",
    "a host directory mounted",
    "output cut at 64 KiB",
    "only some operations recorded",
    "kill only sets a flag",
    "env of create dropped",
}
"""Faults that adapters are known to have; none of them may get lost."""

MORE = [pattern for pattern in os.environ.get("SBX_PROOF", "").split(",") if pattern]
"""Clauses that are tried besides."""


def outcomes(fault: drawer.Fault, folder: Path) -> dict[str, Any]:
    """Hold a broken backend to its clauses and the sample; what became of each clause."""
    report = folder / "report.json"
    clauses = ",".join({*fault.breaks, *drawer.SAMPLE, *MORE})
    # The template keeps the folder of its sandboxes' state, and its sockets want a short path.
    with tempfile.TemporaryDirectory(prefix="sbx-", ignore_cleanup_errors=True) as state:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "asyncio"),
                # A broken backend leaves behind what warnings complain about.
                *("-W", "ignore", "--tb=line", str(HERE / "contract_of_a_fault.py")),
                *(f"--sandboxio-clauses={clauses}", f"--sandboxio-report={report}"),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "SBX_FAULT": fault.name,
                "XDG_RUNTIME_DIR": state,
                "PYTHONPATH": os.pathsep.join([str(HERE), str(TEMPLATE)]),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    (backend,) = json.loads(report.read_text())["backends"]
    return {
        clause: item for clause, item in backend["clauses"].items() if item["outcome"] != "not run"
    }


@pytest.mark.parametrize("fault", drawer.DRAWER, ids=lambda fault: fault.name)
def test_fault_fails_exactly_the_clauses_that_it_breaks(
    fault: drawer.Fault, tmp_path: Path
) -> None:
    if missing := fault.missing():
        pytest.skip(f"this host cannot show the fault: {missing}")
    found = outcomes(fault, tmp_path)
    failed = {clause for clause, item in found.items() if item["outcome"] == "failed"}
    assert failed - set(fault.may_break) == set(fault.breaks), {
        clause: found[clause]["reasons"] for clause in failed
    }


def test_drawer_has_every_fault_that_it_has_to_have() -> None:
    names = [fault.name for fault in drawer.DRAWER]
    assert sorted(HAS_TO_BE_THERE - set(names)) == []
    assert len(names) == len(set(names))


def test_each_fault_but_the_controls_breaks_a_clause() -> None:
    for fault in drawer.DRAWER:
        assert set(fault.breaks) <= CLAUSES.keys(), fault.name
        assert fault.breaks or fault.name.startswith("nothing is wrong with"), fault.name
    controls = {fault.base for fault in drawer.DRAWER if not fault.breaks}
    assert controls == {"fake", "few", "template"}
