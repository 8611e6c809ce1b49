"""One simulated machine: files, processes and programs, put together."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from sandboxio.models import NetworkPolicy

from .clock import FIRST, Timer, VirtualClock
from .handles import Handle, HostOutput
from .internet import Internet, Page, Reply
from .kernel import Kernel
from .nodes import DeviceNode
from .process import Proc, Program, Steps
from .programs import describing, files, network, system, text
from .programs.options import Tool, Unknown, options, program
from .python.model import run_python
from .shell.interpreter import run_shell
from .tree import Tree

__all__ = ["WORKDIR", "Machine"]

WORKDIR = "/work"
SLICE = 2000
"""Steps of processes that are run at once; some milliseconds, then the event loop has its turn."""


class Machine:
    """A machine; whoever calls it holds the lock of the clock."""

    def __init__(
        self,
        clock: VirtualClock,
        internet: Internet,
        policy: NetworkPolicy,
        *,
        memory_mb: int,
        disk_mb: int,
        processes: int,
    ) -> None:
        self._clock = clock
        self._internet = internet
        self._policy = policy
        self._timer: Timer | None = None
        self.denials = 0
        self.tree = Tree(clock.wall_time, disk_mb << 20)
        self.kernel = Kernel(
            self.tree,
            clock.current_time,
            self._programs(),
            {
                "sh": lambda path: lambda proc: self._shell_file(proc, path),
                "bash": lambda path: lambda proc: self._shell_file(proc, path),
                "python3": lambda path: lambda proc: self._python_file(proc, path),
                "python": lambda path: lambda proc: self._python_file(proc, path),
            },
            processes=processes,
            memory=memory_mb << 20,
        )
        self._lay_out()

    def _lay_out(self) -> None:
        for path in ("/bin", "/dev", "/etc", "/tmp", "/usr", WORKDIR):  # noqa: S108 - its own
            self.tree.mkdir(path)
        self.tree.symlink("../bin", "/usr/bin")
        self.tree.mkdir("/usr/local/bin", parents=True)
        for name in ("full", "null", "urandom", "zero"):
            self.tree.add(
                self.tree.place(f"/dev/{name}"), DeviceNode(name, self._clock.wall_time())
            )
        for name in self._programs():
            node = self.tree.create(f"/bin/{name}", mode=0o555)
            node.program = name
        self.tree.create("/etc/hostname").data += b"sandbox\n"
        self.tree.create("/etc/passwd").data += b"user:x:1000:1000::/work:/bin/sh\n"
        for path in ("/bin", "/dev", "/etc", "/usr/local/bin", "/usr/local", "/usr", "/"):
            self.tree.find(path).mode = 0o555
        self.tree.used = 0

    # --- running

    def start(
        self,
        program: Program,
        *,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        cwd: str,
        stdin: Handle,
        output: HostOutput,
    ) -> Proc:
        """Start the first process of a command, and let it run as far as it comes."""
        handles = {0: stdin, 1: output.handle("stdout"), 2: output.handle("stderr")}
        proc = self.kernel.spawn(program, argv=argv, env=env, cwd=cwd, handles=handles)
        for handle in handles.values():
            handle.release()  # the process has its own share of it
        self.run()
        return proc

    def run(self) -> None:
        """Let the processes go on, and note when the next of them is to be woken."""
        more = self.kernel.run(SLICE)
        if self._timer is not None:
            self._timer.cancel()
        wake = self._clock.current_time() if more else self.kernel.next_wake()
        self._timer = self._clock.at(wake, self.run, order=FIRST) if wake < math.inf else None
        self._clock.changed()

    def stop(self) -> None:
        """End everything that runs."""
        self.kernel.kill_all()
        if self._timer is not None:
            self._timer.cancel()

    # --- programs

    def _programs(self) -> dict[str, Program]:
        tools: dict[str, Tool] = {
            **text.TOOLS,
            **files.TOOLS,
            **describing.TOOLS,
            **system.TOOLS,
            **network.tools(self.fetch),
            "bash": self._shell,
            "python": self._python,
            "python3": self._python,
            "sh": self._shell,
        }
        return {name: program(tool) for name, tool in tools.items()}

    def fetch(self, proc: Proc, url: str) -> Page | Reply:
        """Ask for a URL from inside."""
        page = network.local_page(proc, url)
        if page is not None:
            return page
        answer = self._internet.request(self._policy, url)
        if answer in (Reply.DENIED_NAME, Reply.DENIED_ADDRESS):
            self.denials += 1
        return answer

    def _shell(self, proc: Proc, args: tuple[str, ...]) -> Steps:
        found = options("sh", args, flags="eu", values="c", stop_at_first=True)
        flags = "".join(f"set -{flag}; " for flag in sorted(found.flags))
        if "c" in found.values:
            name, *rest = found.rest or ["sh"]
            return (yield from run_shell(proc, flags + found.values["c"], name, tuple(rest)))
        if found.rest:
            return (yield from self._shell_file(proc, found.rest[0], tuple(found.rest[1:])))
        source = yield from proc.read_all(0)
        return (yield from run_shell(proc, flags + os.fsdecode(source), "sh", ()))

    def _shell_file(self, proc: Proc, path: str, args: tuple[str, ...] | None = None) -> Steps:
        try:
            source = os.fsdecode(bytes(self.tree.file(path, proc.cwd).data))
        except OSError as error:
            return (yield from proc.complain(f"0: cannot open {path}: {error.strerror}", 2))
        return (yield from run_shell(proc, source, path, proc.argv[1:] if args is None else args))

    def _python(self, proc: Proc, args: tuple[str, ...]) -> Steps:
        if args in (("--version",), ("-V",)):
            yield from proc.write(1, "Python 3.12.0\n")
            return 0
        rest = [arg for arg in args if arg not in ("-u", "-I", "-S", "-B", "-E")]
        if rest[:1] == ["-c"] and len(rest) > 1:
            proc.argv = ("python3", "-c", *rest[2:])
            return (yield from run_python(proc, rest[1], self.fetch))
        if rest[:2] == ["-m", "http.server"]:
            return (yield from self._serve(proc, rest[2:]))
        if rest and rest[0] != "-":
            if rest[0].startswith("-"):
                raise Unknown(f"the fake's python3 has no option {rest[0]}")
            proc.argv = ("python3", *rest)
            return (yield from self._python_file(proc, rest[0]))
        source = yield from proc.read_all(0)
        return (yield from run_python(proc, source.decode("utf-8", "replace"), self.fetch))

    def _python_file(self, proc: Proc, path: str) -> Steps:
        try:
            data = bytes(self.tree.file(path, proc.cwd).data)
        except OSError as error:
            return (
                yield from proc.complain(
                    f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}", 2
                )
            )
        return (yield from run_python(proc, data.decode("utf-8", "replace"), self.fetch))

    def code(self, source: str, names: dict[str, Any], shown: list[str]) -> Program:
        """Return a program that runs code, keeps its variables, and shows its last expression."""
        return lambda proc: run_python(proc, source, self.fetch, names, shown)

    def _serve(self, proc: Proc, args: list[str]) -> Steps:
        ports = [arg for arg in args if arg.isdigit()]
        if len(args) != len(ports):
            raise Unknown("the fake's http.server takes a port only")
        port = int(ports[0]) if ports else 8000
        self.kernel.ports.directories[port] = proc.cwd
        try:
            yield from proc.sleep(math.inf)
        finally:
            self.kernel.ports.directories.pop(port, None)
        return 0
