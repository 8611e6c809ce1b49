"""How a failure reaches the model: as text with its code, its fix and its page, never as a crash."""

from __future__ import annotations

from mcp.types import CallToolResult, TextContent

from sandboxio.errors import ExecutionTimeout, ResourceLimitExceeded, SandboxError

from ._content import shown
from ._pages import Pages

__all__ = ["failed", "failed_inside", "misused"]

FIXES = {
    "SBX_E1204": "Call again: a new sandbox starts, without the files of this one.",
    "SBX_E1206": "Call again: a new sandbox starts, without the files of this one.",
    "SBX_E1302": "Split the work into shorter calls, or start it in the background with its output "
    "in a file: nohup COMMAND > out.txt 2>&1 &",
    "SBX_E1401": "Do without the network; whether it may be reached was fixed when the server "
    "started.",
    "SBX_E1403": "Use less memory; the cap was fixed when the server started (--memory-mb).",
    "SBX_E1405": "Remove files; the cap was fixed when the server started (--disk-mb).",
    "SBX_E1406": "Write the output to a file, and read parts of it: head, tail, sed -n 1,100p",
    "SBX_E1701": "Look at what is there with list_files.",
}
"""What a model can do; the hints of the errors themselves speak to a programmer."""


def failed(error: SandboxError, pages: Pages) -> CallToolResult:
    """Return a sandbox's error as the error of the tool, with the output until then."""
    fix = FIXES.get(error.code or "", shown(error.hint))
    lines = [f"[{error.code}] {error.message}", f"Fix: {fix}", f"Docs: {error.url}"]
    if isinstance(error, ExecutionTimeout | ResourceLimitExceeded):
        for name, text in (("stdout", error.stdout), ("stderr", error.stderr)):
            if text:
                page = pages.first(text)
                lines.append(f"--- {name} until then")
                lines.append(str(page.data).rstrip("\n"))
                if page.handle is not None:
                    lines.append(
                        f'[page 1 of {page.of}; the next: read_more(handle="{page.handle}", page=2)]'
                    )
    structured = {
        "error": {
            "code": error.code,
            "message": shown(error.message),
            "fix": fix,
            "docs": error.url,
            "retryable": error.retryable,
        }
    }
    content = TextContent(text=shown("\n".join(lines)))
    return CallToolResult(content=[content], structured_content=structured, is_error=True)


def misused(message: str) -> CallToolResult:
    """Return that a tool was called with wrong arguments."""
    return CallToolResult(content=[TextContent(text=shown(message))], is_error=True)


def failed_inside() -> CallToolResult:
    """Return that the server itself has a fault, without a word of what it holds."""
    text = (
        "The sandbox server failed in a way it does not know; its log says how. "
        "Calling again may help."
    )
    return CallToolResult(content=[TextContent(text=text)], is_error=True)
