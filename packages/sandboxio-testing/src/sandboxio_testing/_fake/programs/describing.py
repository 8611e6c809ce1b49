"""Programs that describe files and paths."""

from __future__ import annotations

import fnmatch
import stat
from collections.abc import Mapping

from ..nodes import DirNode, FileNode, LinkNode, Node
from ..process import Proc, Steps
from .options import Options, Tool, Unknown, options

__all__ = ["TOOLS"]

Args = tuple[str, ...]


def ls(proc: Proc, args: Args) -> Steps:
    """List names, sorted; ``-l`` with mode, size and time."""
    found = options("ls", args, flags="aAl1dRh")
    if "R" in found.flags:
        raise Unknown("the fake's ls has no option -R")
    status = 0
    paths = found.rest or ["."]
    for position, path in enumerate(paths):
        try:
            node = proc.tree.find(path, proc.cwd, follow="l" not in found.flags)
        except OSError as error:
            status = yield from proc.complain(f"cannot access '{path}': {error.strerror}", 2)
            continue
        if not isinstance(node, DirNode) or "d" in found.flags:
            yield from proc.write(1, _line(path, node, found))
            continue
        if len(paths) > 1:
            yield from proc.write(1, f"{chr(10) * bool(position)}{path}:\n")
        names = sorted(name for name in node.entries if found.flags & {"a", "A"} or name[0] != ".")
        entries: list[tuple[str, Node]] = [(name, node.entries[name]) for name in names]
        if "a" in found.flags:
            entries = [(".", node), ("..", node), *entries]
        if "l" in found.flags:
            yield from proc.write(1, f"total {sum(-(-n.size // 4096) * 4 for _, n in entries)}\n")
        for name, entry in entries:
            yield from proc.write(1, _line(name, entry, found))
    return status


def _line(name: str, node: Node, found: Options) -> str:
    if "l" not in found.flags:
        return f"{name}\n"
    mode = stat.filemode(node.kind | node.mode)
    target = f" -> {node.target}" if isinstance(node, LinkNode) else ""
    return f"{mode} {node.names} user user {node.size:>8} {int(node.mtime)} {name}{target}\n"


def stat_(proc: Proc, args: Args) -> Steps:
    """Describe files by a format of ``%s``, ``%a``, ``%Y``, ``%F``, ``%h`` and ``%n``."""
    found = options("stat", args, flags="L", values="c", long={"format": "c", "printf": "c"})
    if "c" not in found.values:
        raise Unknown("the fake's stat needs a format: stat -c %s FILE")
    for path in found.rest:
        node = proc.tree.find(path, proc.cwd, follow="L" in found.flags)
        shown = found.values["c"]
        for letter, value in (
            ("%s", str(node.size)),
            ("%a", f"{node.mode:o}"),
            ("%Y", str(int(node.mtime))),
            ("%F", _kind(node)),
            ("%h", str(node.names)),
            ("%U", "user"),
            ("%n", path),
        ):
            shown = shown.replace(letter, value)
        if "%" in shown:
            raise Unknown(f"the fake's stat does not know {found.values['c']!r}")
        yield from proc.write(1, shown + "\n")
    return 0


def _kind(node: Node) -> str:
    if isinstance(node, FileNode):
        return "regular file"
    if isinstance(node, DirNode):
        return "directory"
    return "symbolic link" if isinstance(node, LinkNode) else "character special file"


def readlink(proc: Proc, args: Args) -> Steps:
    """Show where a link points; ``-f`` where it ends."""
    found = options("readlink", args, flags="f")
    for path in found.rest:
        if "f" in found.flags:
            yield from proc.write(1, proc.tree.real_path(path, proc.cwd) + "\n")
            continue
        node = proc.tree.find(path, proc.cwd, follow=False)
        if not isinstance(node, LinkNode):
            return 1
        yield from proc.write(1, node.target + "\n")
    return 0


def find(proc: Proc, args: Args) -> Steps:
    """List all paths below some: ``-name``, ``-type``, and ``-path … -prune`` as it is mostly used."""
    rest = [arg for arg in args if arg not in ("(", ")", "-o", "-print")]
    paths: list[str] = []
    while rest and not rest[0].startswith("-"):
        paths.append(rest.pop(0))
    pruned: list[str] = []
    names: list[str] = []
    kinds: list[type[Node]] = []
    while rest:
        test = rest.pop(0)
        if test == "-path" and len(rest) > 1:
            pruned.append(rest.pop(0))
            if rest[:1] == ["-prune"]:
                del rest[0]
            elif rest[:1] != ["-path"]:
                raise Unknown("the fake's find knows -path with -prune only")
        elif test == "-name" and rest:
            names.append(rest.pop(0))
        elif test == "-type" and rest[:1] and rest[0] in _KINDS:
            kinds.append(_KINDS[rest.pop(0)])
        else:
            raise Unknown(f"the fake's find does not know {test}")
    for path in paths or ["."]:
        node = proc.tree.find(path, proc.cwd, follow=False)
        for here, item in sorted(proc.tree.walk(node, path), key=lambda pair: pair[0]):
            if any(here == prefix or here.startswith(f"{prefix}/") for prefix in pruned):
                continue
            name = here.rstrip("/").rpartition("/")[2] or here
            fits = all(fnmatch.fnmatchcase(name, pattern) for pattern in names)
            if fits and all(isinstance(item, kind) for kind in kinds):
                yield from proc.write(1, here + "\n")
    return 0


_KINDS: dict[str, type[Node]] = {"f": FileNode, "d": DirNode, "l": LinkNode}


def basename(proc: Proc, args: Args) -> Steps:
    """Show the last part of a path."""
    if len(args) not in (1, 2):
        raise Unknown("basename: one path and perhaps a suffix")
    name = args[0].rstrip("/").rpartition("/")[2] or "/"
    suffix = args[1] if len(args) == 2 else ""
    yield from proc.write(1, (name.removesuffix(suffix) or name) + "\n")
    return 0


def dirname(proc: Proc, args: Args) -> Steps:
    """Show a path without its last part."""
    for path in args:
        head = path.rstrip("/").rpartition("/")[0]
        yield from proc.write(1, (head or ("/" if path.startswith("/") else ".")) + "\n")
    return 0


TOOLS: Mapping[str, Tool] = {
    "basename": basename,
    "dirname": dirname,
    "find": find,
    "ls": ls,
    "readlink": readlink,
    "stat": stat_,
}
