"""Run the benchmarks, each in a process of its own: ``bench [name ...]``.

They print ratios within one run, medians and spread. A missed bound is shown and makes the exit
code 1; no timed test asserts any of it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "benchmarks"
HELPERS: Final = {"measure"}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all."""
    known = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS)
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no benchmark {unknown}; there are {known}", file=sys.stderr)
        return 2
    failed = False
    for name in names or known:
        print(f"== {name}", flush=True)
        done = subprocess.run([sys.executable, str(FOLDER / f"{name}.py")], check=False)
        failed |= done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
