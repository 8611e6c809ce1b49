"""Where commands of a container without a guest come from: each is an exec, with a shell around it."""

from __future__ import annotations

import posixpath
import re
import secrets as randomness
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from sandboxio.errors import (
    ConfigurationError,
    CreationError,
    ProviderError,
    SandboxError,
    SandboxGone,
)
from sandboxio.spi import Command, run_to_the_end

from . import _scripts
from ._ending import Ending
from ._exec_process import ExecProcess
from ._pending import Pending
from ._transport import FrameReader

if TYPE_CHECKING:
    from ._client import Engine

__all__ = ["ExecHost"]

ABORT_GRACE = 10.0
"""Seconds to end a command whose start was cancelled."""

DEADLINE_GRACE = 2
"""Seconds after which the far side ends a command that its host, alive, has not ended in time."""

UNDECIDED_POLL = 0.02
"""Seconds between two looks whether the engine has made up its mind about an exec."""

SETTLE_BOUND = 3.0
"""Seconds for the process of an exec to show, whose start was given up; on a busy machine it takes
more than half of one."""

NOTICE_BOUND = 5.0
"""Seconds for the engine to notice that a container has ended, which takes no process any more."""

ANSWERS = ["/bin/sh", "-c", "printf 'yes\\0'"]
"""What a container runs that has not ended."""

MAX_ANSWER = 1 << 16
"""Bytes that a script of ours answers."""

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ExecHost:
    """What starts and kills commands in one container."""

    def __init__(
        self,
        engine: Engine,
        ref: str,
        *,
        user: str,
        workdir: str,
        ending: Ending,
        autopsy: Callable[[], Awaitable[SandboxError | None]],
    ) -> None:
        self.engine = engine
        self.ref = ref
        self.workdir = workdir
        self._user = user or "0"  # the first process's own user is nobody's
        self._tools: dict[str, str] = {}
        self._ending = ending
        self._autopsy = autopsy

    async def find_tools(self) -> None:
        """Learn where the image has its programs.

        Raises:
            CreationError: It lacks one.
        """
        argv = ["/bin/sh", "-c", _scripts.PROBE, "probe", *_scripts.TOOLS]
        try:
            found = await self.output(argv)
        except ProviderError:
            if not self._ending.come:
                raise
            found = b""
        if self._ending.come:
            raise CreationError(
                "The container ended while it was made.",
                hint="If its caps are low, raise them: with gVisor, its own memory and threads count.",
            )
        for line in found.decode("utf-8", "replace").splitlines():
            name, _, path = line.partition(" ")
            self._tools[name] = path
        if missing := [name for name in _scripts.TOOLS if name not in self._tools]:
            raise CreationError(
                f"The image has no python3, and for doing without it lacks: {', '.join(missing)}.",
                hint="Use an image with python3, or with BusyBox or the GNU tools.",
                retryable=False,
            )

    async def read_small(self, path: str) -> bytes | None:
        """Read a small file, such as the kernel's."""
        argv = ["/bin/sh", "-c", _scripts.SMALL, "small", self.tool("cat"), path]
        return await self.output(argv) or None

    async def output(self, argv: list[str]) -> bytes:
        """Run a script that answers, and return what it says up to its NUL."""
        _, reader = await self.open(argv)
        said = bytearray()
        try:
            while (pieces := await reader.receive()) and len(said) < MAX_ANSWER:
                said += b"".join(piece for stream, piece in pieces if stream == "stdout")
                answer, nul, _ = bytes(said).partition(b"\0")
                if nul:
                    return answer
        finally:
            reader.close()
        return b""

    def tool(self, name: str) -> str:
        """Return the absolute path of a program in the image."""
        return self._tools[name]

    def path(self, path: str) -> str:
        """Return an absolute path."""
        return posixpath.join(self.workdir, path)

    async def start(self, command: Command) -> ExecProcess:
        """Start a command."""
        for key in command.env:
            if not IDENTIFIER.fullmatch(key):
                raise ConfigurationError(
                    f"The environment variable {key!r} cannot reach a command of an image without "
                    "Python: its shell drops such names.",
                    hint="Use an image with python3.",
                )
        mark = randomness.token_hex(16)
        argv = [
            "/bin/sh",
            "-c",
            _scripts.RUN,
            "sandboxio",
            mark,
            str(int(command.timeout) + DEADLINE_GRACE),
            self.tool("sleep"),
            self.tool("grep"),
            _scripts.KILL,
            self.path(command.cwd or "."),
            "1" if command.env.get("HOME") == "" else "",
            *command.argv,
        ]
        env = [f"{key}={value}" for key, value in {**command.env, _scripts.MARK: mark}.items()]
        with_stdin = bool(command.stdin) or command.keep_stdin_open
        pending = Pending()
        process: ExecProcess | None = None
        try:
            ident, reader = await self.open(argv, env=env, stdin=with_stdin, pending=pending)
            process = ExecProcess(self, ident, mark, reader, command)
            await process.started(command.cwd or ".")
        except BaseException:
            if process is not None:
                process.close()
            await run_to_the_end(lambda: self._undo(mark, pending), grace=ABORT_GRACE)
            raise
        return process

    async def _undo(self, mark: str, pending: Pending) -> None:
        """End what a start that was cut short may have started, or may still."""
        while pending.undecided:  # noqa: ASYNC110 - the thread knows no event loop
            await anyio.sleep(UNDECIDED_POLL)
        if pending.created is None:
            return
        # The engine answers before the process is there, and what is not there cannot be killed.
        with anyio.move_on_after(SETTLE_BOUND):
            while not begun_or_ended(await self.engine.exec_state(pending.created)):  # noqa: ASYNC110
                await anyio.sleep(UNDECIDED_POLL)
        await self.kill_tree(mark, 0)

    async def open(
        self,
        argv: list[str],
        *,
        env: list[str] | None = None,
        stdin: bool = False,
        pending: Pending | None = None,
    ) -> tuple[str, FrameReader]:
        """Start a process and return its id and its streams."""
        config = {
            "Cmd": argv,
            "Env": env or [],
            "User": self._user,
            "AttachStdin": stdin,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": False,
        }
        ident, sock, rest = await self.engine.exec(self.ref, config, pending)
        return ident, FrameReader(sock, rest, self._ending)

    async def exit_code(self, ident: str, *, within: float) -> int | None:
        """Return the exit code of an exec that has no output any more; ``None`` if it runs on.

        Raises:
            SandboxError: The container has ended.
        """
        await self.raise_if_it_ends()
        with anyio.move_on_after(within):
            while True:
                state = await self.engine.exec_state(ident)
                if state is None:
                    raise await self._autopsy() or SandboxGone("The sandbox ended.")
                code: object = state.get("ExitCode")
                if isinstance(code, int):
                    return code & 0xFF
                await anyio.sleep(UNDECIDED_POLL)
        return None

    async def raise_if_it_ends(self) -> None:
        """Tell the end of the container from that of a command: at first both look the same.

        The engine may notice late, but a container without its first process takes no other one.

        Raises:
            SandboxError: The container has ended.
        """
        with suppress(ProviderError):
            if not self._ending.come and await self.output(ANSWERS) == b"yes":
                return
        with anyio.move_on_after(NOTICE_BOUND):
            while not self._ending.come:  # noqa: ASYNC110 - it is one of many sockets
                await anyio.sleep(UNDECIDED_POLL)
            raise await self._autopsy() or SandboxGone("The sandbox ended.")

    async def kill_tree(self, mark: str, leader: int, *, spare_leader: bool = False) -> bool:
        """Kill all that came of one command; whether nothing of it is left."""
        argv = ["/bin/sh", "-c", _scripts.KILL, "kill", mark, str(leader), self.tool("grep")]
        if spare_leader:
            argv.append(str(leader))
        return await self.output(argv) == b"gone"

    async def signal_group(self, leader: int, signum: int) -> None:
        """Signal a process group."""
        argv = ["/bin/sh", "-c", _scripts.SIGNAL, "signal", str(signum), str(leader)]
        await self.output(argv)


def begun_or_ended(state: dict[str, Any] | None) -> bool:
    """Say whether an exec's process is there, or has been, or can never be."""
    return state is None or bool(state.get("Pid")) or state.get("ExitCode") is not None
