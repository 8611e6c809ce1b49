"""``/proc`` of a fake sandbox: a directory for each process, kept as processes come and go."""

from __future__ import annotations

import os

from .nodes import DirNode, FileNode, LinkNode
from .process import Proc
from .tree import Tree

__all__ = ["ProcFs"]

STATUS = """\
Name:\t{name}
State:\tS (sleeping)
Pid:\t{pid}
PPid:\t{parent}
Uid:\t1000\t1000\t1000\t1000
Gid:\t1000\t1000\t1000\t1000
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
"""


class ProcFs:
    """The directory ``/proc`` of a tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._root = DirNode(0o555, tree.now())
        self._self = LinkNode("1", tree.now())
        self._root.entries["self"] = self._self
        tree.root.entries["proc"] = self._root

    def runs(self, proc: Proc) -> None:
        """A process takes a step: ``self`` is it."""
        self._self.target = str(proc.pid)

    def appears(self, proc: Proc) -> None:
        """A process began, or became another program."""
        folder = DirNode(0o555, self._tree.now())
        argv = "".join(f"{argument}\0" for argument in proc.argv)
        env = "".join(f"{name}={value}\0" for name, value in proc.env.items())
        name = proc.argv[0].rpartition("/")[2][:15]
        status = STATUS.format(name=name, pid=proc.pid, parent=proc.parent)
        for entry, text in (("cmdline", argv), ("environ", env), ("status", status)):
            folder.entries[entry] = FileNode(0o444, self._tree.now(), os.fsencode(text))
        self._root.entries[str(proc.pid)] = folder

    def vanishes(self, proc: Proc) -> None:
        """A process ended."""
        self._root.entries.pop(str(proc.pid), None)
