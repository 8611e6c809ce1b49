"""The contract: one import, a witness, and a class of a few lines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, ClassVar

from sandboxio_template import TemplateBackend

from sandboxio_testing.suite import BackendContract, NamespaceWitness

ISSUES = "https://github.com/example/sandboxio-template/issues"


class TemplateWitness(NamespaceWitness):
    """Knows of sandboxes from the processes of this host, and never asks the adapter."""

    def initial_processes(self) -> dict[str, int]:
        """Below each bubblewrap that this process started is the first process of a sandbox."""
        found: dict[str, int] = {}
        for bubblewrap in children(os.getpid()):
            for init in children(bubblewrap):
                if directory := self._directory_of(init):
                    found[directory.name] = init
        return found

    def labels(self, sandbox_id: str) -> dict[str, str] | None:
        found: dict[str, str] = self._facts(sandbox_id)["labels"]
        return found

    def description(self, sandbox_id: str) -> str:
        lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in self._pids(sandbox_id)]
        return "\n".join([*lines, json.dumps(self._facts(sandbox_id))])

    def _directories(self) -> list[Path]:
        base = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp")
        return sorted((base / f"sandboxio-template-{os.getuid()}").glob("sbx-*"))

    def _facts(self, sandbox_id: str) -> dict[str, Any]:
        (directory,) = (item for item in self._directories() if item.name == sandbox_id)
        found: dict[str, Any] = json.loads((directory / "facts.json").read_text())
        return found

    def _directory_of(self, init: int) -> Path | None:
        for directory in self._directories():
            if (directory / "facts.json").exists() and self._facts(directory.name)["init"] == init:
                return directory
        return Path(f"unknown-{init}")


def children(pid: int) -> list[int]:
    """Return the children of a process, whichever of its threads started them."""
    found: list[int] = []
    try:
        tasks = list(Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return found  # it ended while its threads were listed
    for task in tasks:
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue
    return found


class TestTemplate(BackendContract):
    backend = TemplateBackend
    witness = TemplateWitness
    known_gaps: ClassVar = {
        # The kernel does not count the processes of one sandbox if root made it.
        "caps.by-default": f"{ISSUES}/1",
    }
