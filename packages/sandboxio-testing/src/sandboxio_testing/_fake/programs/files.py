"""Programs that change files."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from ..handles import open_node
from ..nodes import DirNode, FileNode, LinkNode, Node, PipeNode, fail
from ..process import Proc, Steps
from .options import Tool, Unknown, options

__all__ = ["TOOLS"]

Args = tuple[str, ...]
FOLDER = "/tmp"  # noqa: S108 - of the sandbox


def mkdir(proc: Proc, args: Args) -> Steps:
    """Make directories."""
    found = options("mkdir", args, flags="p", long={"parents": "p"})
    status = 0
    for path in found.rest:
        try:
            proc.tree.mkdir(path, proc.cwd, parents="p" in found.flags)
        except OSError as error:
            status = yield from proc.complain(f"cannot create directory '{path}': {error.strerror}")
    return status


def rmdir(proc: Proc, args: Args) -> Steps:
    """Remove empty directories."""
    status = 0
    for path in options("rmdir", args).rest:
        try:
            proc.tree.rmdir(path, proc.cwd)
        except OSError as error:
            status = yield from proc.complain(f"failed to remove '{path}': {error.strerror}")
    return status


def rm(proc: Proc, args: Args) -> Steps:
    """Remove names; ``-r`` with all below them."""
    found = options("rm", args, flags="rRf", long={"recursive": "r", "force": "f"})
    recursive, force = bool(found.flags & {"r", "R"}), "f" in found.flags
    status = 0
    for path in found.rest:
        try:
            node = proc.tree.find(path, proc.cwd, follow=False)
            if isinstance(node, DirNode) and not recursive:
                raise fail(errno.EISDIR, path)
            proc.tree.remove(path, proc.cwd, "/")
        except OSError as error:
            if not (force and error.errno == errno.ENOENT):
                status = yield from proc.complain(f"cannot remove '{path}': {error.strerror}")
    return status


def touch(proc: Proc, args: Args) -> Steps:
    """Make files, or set their time to now."""
    found = options("touch", args, flags="c")
    for path in found.rest:
        place = proc.tree.place(path, proc.cwd)
        if place.node is not None:
            place.node.mtime = proc.tree.now()
        elif "c" not in found.flags:
            proc.tree.create(path, proc.cwd)
    yield from proc.tick()
    return 0


def mkfifo(proc: Proc, args: Args) -> Steps:
    """Make named pipes; the fake makes them, and opens none."""
    found = options("mkfifo", args)
    for path in found.rest:
        proc.tree.add(proc.tree.place(path, proc.cwd, follow=False), PipeNode(proc.tree.now()))
    yield from proc.tick()
    return 0


def ln(proc: Proc, args: Args) -> Steps:
    """Link files; ``-s`` symbolically."""
    found = options("ln", args, flags="sfn")
    if len(found.rest) != 2:
        raise Unknown("the fake's ln takes a target and a name")
    target, path = found.rest
    if "f" in found.flags and proc.tree.place(path, proc.cwd, follow=False).node is not None:
        proc.tree.unlink(path, proc.cwd)
    if "s" in found.flags:
        proc.tree.symlink(target, path, proc.cwd)
    else:
        proc.tree.link(target, path, proc.cwd)
    yield from proc.tick()
    return 0


def _into(proc: Proc, source: str, target: str) -> str:
    """Return where a file goes that is copied or moved to `target`."""
    try:
        node = proc.tree.find(target, proc.cwd)
    except OSError:
        return target
    name = source.rstrip("/").rpartition("/")[2]
    return f"{target.rstrip('/')}/{name}" if isinstance(node, DirNode) else target


def mv(proc: Proc, args: Args) -> Steps:
    """Rename."""
    found = options("mv", args, flags="fT")
    if len(found.rest) < 2:
        raise Unknown("mv: a source and a target are needed")
    *sources, target = found.rest
    for source in sources:
        goal = target if "T" in found.flags else _into(proc, source, target)
        proc.tree.rename(source, goal, proc.cwd)
    yield from proc.tick()
    return 0


def cp(proc: Proc, args: Args) -> Steps:
    """Copy; ``-r`` directories with all below them."""
    found = options("cp", args, flags="rRapf")
    if len(found.rest) < 2:
        raise Unknown("cp: a source and a target are needed")
    *sources, target = found.rest
    for source in sources:
        goal = _into(proc, source, target)
        node = proc.tree.find(source, proc.cwd, follow=not found.flags & {"r", "R", "a"})
        if isinstance(node, DirNode) and not found.flags & {"r", "R", "a"}:
            return (yield from proc.complain(f"-r not specified; omitting directory '{source}'"))
        for path, item in list(proc.tree.walk(node, "")):
            yield from proc.tick()
            _copied(proc, item, goal + path, keep=bool(found.flags & {"a", "p"}))
    return 0


def _copied(proc: Proc, node: Node, path: str, *, keep: bool) -> None:
    if isinstance(node, DirNode):
        proc.tree.mkdir(path, proc.cwd, parents=True)
    elif isinstance(node, LinkNode):
        proc.tree.symlink(node.target, path, proc.cwd)
    elif isinstance(node, FileNode):
        copy = proc.tree.create(path, proc.cwd, mode=node.mode)
        proc.tree.truncate(copy)
        if proc.tree.write_at(copy, 0, bytes(node.data)) < len(node.data):
            proc.family.disk_full = True
            raise fail(errno.ENOSPC, path)
        if keep:
            copy.mtime = node.mtime


def chmod(proc: Proc, args: Args) -> Steps:
    """Set modes, octal or like ``+x``."""
    if len(args) < 2:
        raise Unknown("chmod: a mode and a file are needed")
    mode, *paths = args
    for path in paths:
        node = proc.tree.find(path, proc.cwd)
        node.mode = _changed_mode(node.mode, mode)
    yield from proc.tick()
    return 0


def _changed_mode(mode: int, change: str) -> int:
    if change.isdigit():
        return int(change, 8) & 0o7777
    who, sign, letters = change.rstrip("rwx+-=")[:3], "", ""
    for sign_ in "+-=":
        head, found, tail = change.partition(sign_)
        if found:
            who, sign, letters = head or "a", sign_, tail
            break
    if not sign or set(letters) - set("rwx") or set(who) - set("ugoa"):
        raise Unknown(f"the fake's chmod does not know {change!r}")
    shifts = {"u": 6, "g": 3, "o": 0}
    groups = "ugo" if "a" in who else who
    bits = sum({"r": 4, "w": 2, "x": 1}[letter] for letter in set(letters))
    for group in groups:
        part = bits << shifts[group]
        mode = mode & ~part if sign == "-" else (mode | part)
        if sign == "=":
            mode &= ~((7 & ~bits) << shifts[group])
    return mode


def dd(proc: Proc, args: Args) -> Steps:
    """Copy blocks: ``if=``, ``of=``, ``bs=``, ``count=``, ``status=none``."""
    known = {"if": "/dev/stdin", "of": "", "bs": "512", "count": "", "status": "", "conv": ""}
    for arg in args:
        name, equals, value = arg.partition("=")
        if not equals or name not in known:
            raise Unknown(f"the fake's dd does not know {arg!r}")
        known[name] = value
    size = _bytes_of(known["bs"])
    count = int(known["count"]) if known["count"] else None
    source, target = 0, 1
    if known["if"] != "/dev/stdin":
        proc.open_as(10, open_node(proc.tree, known["if"], proc.cwd, "r"))
        source = 10
    if known["of"]:
        proc.open_as(11, open_node(proc.tree, known["of"], proc.cwd, "w"))
        target = 11
    copied = 0
    while count is None or copied < count:
        data = yield from proc.read(source, size)
        if not data:
            break
        try:
            yield from proc.write(target, data)
        except OSError as error:
            return (yield from proc.complain(f"error writing '{known['of']}': {error.strerror}"))
        copied += 1
    if known["status"] != "none":
        yield from proc.write(2, f"{copied}+0 records in\n{copied}+0 records out\n")
    return 0


def _bytes_of(text: str) -> int:
    scale = {"k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    digits = text[:-1] if scale > 1 else text
    if not digits.isdigit():
        raise Unknown(f"invalid number: {text!r}")
    return int(digits) * scale


def truncate(proc: Proc, args: Args) -> Steps:
    """Cut or lengthen files."""
    found = options("truncate", args, values="s", long={"size": "s"})
    for path in found.rest:
        node = proc.tree.create(path, proc.cwd)
        proc.tree.truncate(node, _bytes_of(found.values.get("s", "")))
    yield from proc.tick()
    return 0


def mktemp(proc: Proc, args: Args) -> Steps:
    """Make a file, or with ``-d`` a directory, with a name of its own in /tmp."""
    found = options("mktemp", args, flags="d")
    number = 1
    while proc.tree.place(f"{FOLDER}/{number:010d}").node is not None:
        number += 1
    path = f"{FOLDER}/{number:010d}"
    if "d" in found.flags:
        proc.tree.mkdir(path)
    else:
        proc.tree.create(path, mode=0o600)
    yield from proc.write(1, path + "\n")
    return 0


def sync(proc: Proc, args: Args) -> Steps:
    """Nothing is ever unwritten here."""
    yield from proc.tick()
    return 0


TOOLS: Mapping[str, Tool] = {
    "chmod": chmod,
    "cp": cp,
    "dd": dd,
    "ln": ln,
    "mkdir": mkdir,
    "mkfifo": mkfifo,
    "mktemp": mktemp,
    "mv": mv,
    "rm": rm,
    "rmdir": rmdir,
    "sync": sync,
    "touch": touch,
    "truncate": truncate,
}
