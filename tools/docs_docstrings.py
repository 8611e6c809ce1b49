"""Run the examples in the docstrings of every wheel: the reference shows them.

``# doctest: +SKIP`` on a line leaves an example out, for which there should be a reason.
"""

from __future__ import annotations

import doctest
import importlib
import sys
from typing import Final

import workspace
from sandboxio.errors import BackendNotInstalled

INSIDE: Final = ".inside"
"""Programs that run inside of a sandbox, with other packages than are here."""


def main() -> int:
    """Run all of them and return an exit code."""
    failed = attempted = 0
    for member in workspace.members():
        for name in member.modules():
            if INSIDE in name:
                continue
            try:
                module = importlib.import_module(name)
            except BackendNotInstalled as error:
                # An integration without its framework, which not every environment can have.
                print(f"skip {name}: {error.message}")
                continue
            found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
            failed += found.failed
            attempted += found.attempted
    print(f"{attempted} lines of examples in docstrings, {failed} failed")
    return 1 if failed or not attempted else 0


if __name__ == "__main__":
    sys.exit(main())
