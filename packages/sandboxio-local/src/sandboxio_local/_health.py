"""Whether this host can run sandboxes, found by making the smallest one."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

from sandboxio.errors import SandboxError
from sandboxio.models import Health
from sandboxio_local import _bwrap, _cgroup, _errors, _plan, _python

__all__ = ["examine", "probe"]

PROBE_BOUND: Final = 1.5
"""Seconds for a sandbox that runs nothing; it takes four milliseconds, and a caller waits two."""


def examine() -> Health:
    """Examine this host. Blocks for some ten milliseconds; use a thread."""
    try:
        _plan.check_machine()
        bubblewrap = _bwrap.find()
        interpreter = _python.on_host()
    except SandboxError as error:
        return Health(ok=False, detail=error.message, hint=error.hint)
    facts = (
        ("bubblewrap", f"{bubblewrap.version_text} ({bubblewrap.path})"),
        ("caps", _caps()),
        ("egress", _egress()),
        ("guest python", interpreter.path),
        ("kernel", os.uname().release),
    )
    problem = probe(bubblewrap.path)
    if problem is not None:
        detail, hint = problem
        return Health(ok=False, detail=detail, hint=hint, facts=facts)
    return Health(ok=True, detail=f"bubblewrap {bubblewrap.version_text}", facts=facts)


def _caps() -> str:
    hierarchy = _cgroup.find()
    if hierarchy is None:
        return "resource limits"
    return f"cgroup v{hierarchy.version} ({', '.join(hierarchy.places)})"


def _egress() -> str:
    for name in ("pasta", "slirp4netns"):
        if shutil.which(name) is not None:
            return name
    return "deny only"


def probe(path: str) -> tuple[str, str] | None:
    """Make the smallest sandbox; return what is wrong and how to repair it, or ``None``."""
    command = [path, "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/"]
    command += ["--proc", "/proc", "--dev", "/dev", "--die-with-parent", "true"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_BOUND,
            check=False,
            env={"PATH": "/usr/bin:/bin"},
        )
    except subprocess.TimeoutExpired:
        return f"Bubblewrap made no sandbox within {PROBE_BOUND:g} s.", "Look at the host's load."
    if done.returncode == 0:
        return None
    text = done.stderr.decode("utf-8", "replace").strip()
    error = _errors.failure(f"ended died: {text}")
    return error.message, error.hint
