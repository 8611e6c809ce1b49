"""``curl``: a request that obeys the policy of its sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from ..handles import open_node
from ..internet import Page, Reply
from ..nodes import DirNode, FileNode
from ..process import Proc, Steps
from ..sockets import LOOPBACK
from .options import Tool, Unknown, options

__all__ = ["Fetch", "local_page", "tools"]

Fetch = Callable[[Proc, str], Page | Reply]
"""How a program of one machine asks for a URL."""

LONG = {
    "silent": "s",
    "show-error": "S",
    "fail": "f",
    "location": "L",
    "insecure": "k",
    "output": "o",
    "max-time": "m",
    "connect-timeout": "c",
    "head": "I",
    "write-out": "w",
    "user-agent": "A",
    "header": "H",
}
EXIT_CODES = {Reply.DENIED_NAME: 6, Reply.DENIED_ADDRESS: 7, Reply.REFUSED: 7}


def local_page(proc: Proc, url: str) -> Page | Reply | None:
    """Answer a request to the sandbox itself; ``None`` if it is for somebody else."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.hostname not in LOOPBACK:
        return None
    root = proc.kernel.ports.directories.get(parts.port or 80)
    if root is None:
        return Reply.REFUSED
    try:
        node = proc.tree.find(f"{root}/{parts.path}")
    except OSError:
        return Page(url, 404, b"File not found\n")
    if isinstance(node, FileNode):
        return Page(url, 200, bytes(node.data))
    names = sorted(node.entries) if isinstance(node, DirNode) else []
    return Page(url, 200, "".join(f"{name}\n" for name in names).encode())


def tools(fetch: Fetch) -> Mapping[str, Tool]:
    """Return the programs that use the network."""

    def curl(proc: Proc, args: tuple[str, ...]) -> Steps:
        found = options("curl", args, flags="sSfLkI", values="omcwAH", long=LONG)
        if len(found.rest) != 1:
            raise Unknown("the fake's curl takes one URL")
        url = found.rest[0]
        yield from proc.tick()
        answer = fetch(proc, url)
        quiet = "s" in found.flags and "S" not in found.flags
        if isinstance(answer, Reply):
            code = EXIT_CODES[answer]
            if not quiet:
                host = urlsplit(url if "://" in url else f"http://{url}").hostname
                yield from proc.complain(f"({code}) {answer.value}: {host}")
            return code
        status = answer.status
        if "f" in found.flags and status >= 400:
            if not quiet:
                yield from proc.complain(f"(22) The requested URL returned error: {status}")
            return 22
        target = 1
        if "o" in found.values:
            proc.open_as(10, open_node(proc.tree, found.values["o"], proc.cwd, "w"))
            target = 10
        yield from proc.write(target, f"HTTP/1.1 {status}\n" if "I" in found.flags else answer.body)
        if "w" in found.values:
            shown = found.values["w"].replace("%{http_code}", str(status)).replace("\\n", "\n")
            if "%{" in shown:
                raise Unknown("the fake's curl knows -w '%{http_code}' only")
            yield from proc.write(1, shown)
        return 0

    return {"curl": curl}
