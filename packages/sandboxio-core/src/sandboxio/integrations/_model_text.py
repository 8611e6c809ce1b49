"""How what a sandbox did reads to a model: results, errors and limits, as text of bounded length."""

from __future__ import annotations

from ..errors import BackendNotInstalled, SandboxError
from ..models import ExecResult, NetworkPolicy

__all__ = ["cut", "explain", "limits_in_words", "missing", "missing_alone", "output", "render"]


def render(result: ExecResult, limit: int) -> str:
    """Return what a call wrote, and how it ended if not well."""
    rich = [
        part.data if part.mime_type == "text/plain" else f"[a result of type {part.mime_type}]"
        for part in result.results or ()
    ]
    printed = "\n".join(part for part in (result.stdout.rstrip("\n"), *rich) if part)
    lines = [output(printed, result.stderr, limit)]
    if not result.ok:
        lines.append(f"[exit code {result.exit_code}]")
    return "\n".join(line for line in lines if line) or "[no output]"


def explain(error: SandboxError, limit: int) -> str:
    """Return an error with its code and fix, and what the program had written until then."""
    # Timeouts and hit caps carry it; it is what tells a model how far its program came.
    written = output(getattr(error, "stdout", ""), getattr(error, "stderr", ""), limit)
    return "\n".join(part for part in (written, cut(str(error), limit)) if part)


def output(stdout: str, stderr: str, limit: int) -> str:
    """Return both streams as one text of at most ``limit`` characters and a note on what is left out."""
    parts = [stdout.rstrip("\n")] if stdout.strip() else []
    if stderr.strip():
        parts.append("[stderr]\n" + stderr.rstrip("\n"))
    return cut("\n".join(parts), limit)


def cut(text: str, limit: int) -> str:
    """Return the text, without its middle if it is longer than ``limit`` characters."""
    if len(text) <= limit:
        return text
    head = limit // 2
    tail = limit - head
    note = f"[{len(text) - limit} characters left out here: print less, or use a file]"
    return f"{text[:head]}\n{note}\n{text[-tail:]}"


def limits_in_words(network: NetworkPolicy | None, timeout: float, max_output: int) -> str:
    """Return the limits of a call as sentences; the policy is ``None`` where it is not known yet."""
    if network is None:
        reach = "Expect no network."
    elif network.egress == "allow":
        reach = "The network can be reached."
    elif network.allow:
        reach = f"Of the network only this can be reached: {', '.join(network.allow)}."
    else:
        reach = "There is no network."
    return (
        f"{reach} A call is stopped after {timeout:g} seconds. "
        f"Of more than {max_output} characters of output the middle is left out. "
        "Failures are returned as text that says what to change."
    )


def missing(framework: str, extra: str, error: ImportError) -> BackendNotInstalled:
    """Return the error for an integration whose framework cannot be imported."""
    return BackendNotInstalled(
        f"This integration needs {framework}: {error}.",
        hint=f'uv pip install "sandboxio[{extra}]"',
    )


def missing_alone(framework: str, error: ImportError) -> BackendNotInstalled:
    """Return the same for a framework that no extra of ours brings."""
    return BackendNotInstalled(
        f"This integration needs {framework}: {error}.",
        hint=f'uv pip install sandboxio-core "{framework}"',
    )
