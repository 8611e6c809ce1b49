"""Every promise that sandboxio makes about every backend, as data.

The contract suite proves them, `docs/reference/contract.md` lists them, and a conformance report
refers to them by their ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ._promises import _files, _life, _running, _safety
from ._promises._clause import Clause, Level

__all__ = ["AREAS", "CLAUSES", "Clause", "Level"]

_ALL = (*_life.CLAUSES, *_running.CLAUSES, *_files.CLAUSES, *_safety.CLAUSES)

CLAUSES: Mapping[str, Clause] = MappingProxyType({clause.id: clause for clause in _ALL})
"""Each clause by its id, in the order of the documentation."""

AREAS: Mapping[str, str] = MappingProxyType(
    {
        "create": "Creating a sandbox",
        "context": "The block of a sandbox",
        "kill": "Ending a sandbox",
        "connect": "Connecting",
        "lifetime": "Lifetime",
        "removed": "Sandboxes that somebody else removed",
        "managed": "Finding what is left",
        "exec": "Running commands",
        "env": "Environment",
        "cwd": "Working directory",
        "stdin": "Standard input",
        "background": "Background processes",
        "timeout": "Deadlines",
        "cancel": "Cancellation",
        "stream": "Streams",
        "code": "Running code",
        "concurrency": "Doing things at the same time",
        "files": "Files",
        "transfer": "Uploads and downloads",
        "capability": "Capabilities",
        "network": "Network policy",
        "caps": "Resource caps",
        "isolation": "Isolation",
        "secrets": "Secrets",
        "errors": "Errors",
        "audit": "Audit records",
        "sync": "The sync facade",
    }
)
"""Title of each area, in the order of the documentation."""
