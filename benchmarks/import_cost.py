"""What ``import sandboxio`` adds to a bare interpreter. CI fails when it is more than `HARD`."""

from __future__ import annotations

import os
import subprocess
import sys

import anyio
from measure import interleave, verdict

ROUNDS = 31
AIM = 15.0
HARD = 40.0
"""Milliseconds; an import that costs this much has begun to load an engine, a plugin or an SDK."""


async def main() -> None:
    """Measure it, beside an interpreter that does nothing."""
    # Bytecode must be cached, as it is for everybody who installs a wheel.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}

    def python(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], env=env, check=True)

    async def bare() -> None:
        python("pass")

    async def with_import() -> None:
        python("import sandboxio")

    empty, imported = await interleave([("python -c pass", bare), ("import", with_import)], ROUNDS)
    added = (imported.median - empty.median) * 1e3
    print(empty.describe(), imported.describe(), sep="\n")
    verdict("import sandboxio adds", added, AIM, at_most=True, unit=" ms")
    sys.exit(0 if added <= HARD else 1)


if __name__ == "__main__":
    anyio.run(main)
