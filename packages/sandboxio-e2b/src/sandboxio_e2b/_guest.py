"""The guest of one sandbox: connected when it is needed, and again when a connection broke."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from sandboxio.errors import (
    ConnectError,
    SandboxCorrupted,
    SandboxError,
    SandboxGone,
    SandboxUnreachable,
)
from sandboxio.spi import Command, GuestChannel, GuestInit, GuestSandbox
from sandboxio_e2b._link import Link, LinkTransport

if TYPE_CHECKING:
    from sandboxio_e2b._client import Client, Native

__all__ = ["Guest"]

CONNECT_BOUND = 30.0
"""Seconds from the start of a relay to a guest that answers; it takes a tenth of one."""

CUT_BOUND = 4.0
"""Seconds to kill the relay of a connection that broke."""

SETTLE_BOUND = 6.0
"""Seconds until what ran over a broken connection is known to be dead."""

JOIN_PAUSE = 0.05
"""Seconds between two looks whether a guest has heard from its creator."""

RETRY_PAUSE = 0.1
"""Seconds between two attempts to connect, where nothing is sure until one succeeds."""

LINE_LIMIT = 4096
"""Bytes that the relay's first line may have."""

HOME = "/home/user"
"""Where commands start unless the template says otherwise."""


class Guest:
    """Connects to the guest; everything but `usable` and the properties runs on the portal."""

    def __init__(
        self,
        client: Client,
        native: Native,
        path: str,
        *,
        env: Mapping[str, str] | None,
        secret_names: frozenset[str] = frozenset(),
        ends_at: float,
    ) -> None:
        """Take over a sandbox.

        Args:
            client: E2B.
            native: The sandbox.
            path: Of the guest's socket inside.
            env: Environment of every command; ``None`` to take a guest that runs, as it is.
            secret_names: Which keys of it are secrets.
            ends_at: When its lifetime is over, in `time.monotonic`.
        """
        self._client = client
        self._native = native
        self._path = path
        self._env = env
        self._secret_names = secret_names
        self.ends_at = ends_at
        self.link: Link | None = None
        self.channel: GuestChannel | None = None
        self.home = HOME
        self._transports: list[LinkTransport] = []
        self._lock: asyncio.Lock | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def usable(self) -> bool:
        """Whether there is a connection that stands, as far as is known."""
        return (
            self.channel is not None
            and not self.channel.failed
            and self.link is not None
            and not self.link.over
        )

    @property
    def remaining(self) -> float:
        """Seconds of lifetime left."""
        return max(0.0, self.ends_at - time.monotonic())

    def release(self) -> None:
        """Close all connections; to be called where their users wait, if any do."""
        if self.channel is not None:
            self.channel.close()
        transports, self._transports = self._transports, []
        for transport in transports:
            transport.close()

    async def connect(self) -> None:
        """Return when there is a connection that stands.

        After a broken one, what ran over that is dead when this returns.

        Raises:
            SandboxGone: The sandbox does not exist any more.
            SandboxUnreachable: It may exist, but there is no way to it.
            ConnectError: There is no guest to join.
        """
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self.usable:
                await self._connect()

    async def settle(self, mark: str) -> None:
        """Return when a command whose connection broke is dead; the caller bounds it.

        Args:
            mark: What only that command has in its environment, ``name=value``.

        Raises:
            SandboxGone: The sandbox does not exist any more.
        """
        while not await self._attempt(mark):  # noqa: ASYNC110 - each look is an attempt
            await asyncio.sleep(RETRY_PAUSE)

    async def _attempt(self, mark: str) -> bool:
        try:
            await self.connect()
            assert self.channel is not None
            return await self._is_dead(mark, self.channel)
        except SandboxUnreachable:
            return False

    async def prepare(self) -> None:
        """Connect ahead of the first call, which would meet the same error again."""
        try:
            await self.connect()
        except SandboxError:
            return

    async def _connect(self) -> None:
        old = self.link
        if self._closed or self.remaining == 0:
            raise SandboxGone("The sandbox was ended, or its lifetime is over.")
        if old is not None:
            await old.judged()
            verdict = old.verdict()
            if isinstance(verdict, SandboxGone):
                raise verdict
            await self._bury(old)
        try:
            async with asyncio.timeout(CONNECT_BOUND):
                while (channel := await self._open()) is None:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(JOIN_PAUSE)
        except TimeoutError as error:
            raise SandboxUnreachable(
                f"The sandbox's guest did not answer within {CONNECT_BOUND:g} s."
            ) from error
        self.channel = channel

    async def _open(self) -> GuestChannel | None:
        """Make a connection; ``None`` if the guest has not heard from its creator yet."""
        mode = "join" if self._env is None else "start"
        link = Link(self._client, self._native, self._path, mode, lambda: self.remaining)
        self.link = link
        self._spawn(link)
        transport = LinkTransport(link)
        self._transports.append(transport)
        try:
            channel = await self._greet(transport)
            if math.isfinite(channel.remaining):
                return channel
        except BaseException:
            transport.close()
            raise
        transport.close()
        await self._bury(link)
        return None

    def _spawn(self, link: Link) -> None:
        task = asyncio.create_task(self._drive(link))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drive(self, link: Link) -> None:
        await link.run()
        if not self._closed and not isinstance(link.verdict(), SandboxGone):
            # Whoever was in a call may not come back; what they had started must end all the same.
            await self._bury(link)

    async def _bury(self, link: Link) -> None:
        try:
            async with asyncio.timeout(CUT_BOUND):
                await link.cut()
        except (SandboxError, TimeoutError):
            return  # not reachable either; the next connection tries again

    async def _greet(self, transport: LinkTransport) -> GuestChannel:
        line = await transport.first_line(LINE_LIMIT)
        try:
            first: Any = json.loads(line)
        except ValueError as error:
            raise SandboxCorrupted("The relay inside the sandbox wrote something else.") from error
        match first:
            case {"found": bool(found), "joined": bool(joined), "home": str(home)}:
                pass
            case _:
                raise SandboxCorrupted("The relay inside the sandbox wrote something else.")
        if not found:
            raise ConnectError(
                "The sandbox exists, but nothing of sandboxio runs in it any more.",
                hint="Only its creator can start that again; or use sandbox E2B's own SDK for it.",
            )
        self.home = home
        if joined:
            channel = await GuestChannel.open(transport, None)
            self.home = channel.workdir
            return channel
        init = GuestInit(
            env=cast("Mapping[str, str]", self._env),
            secret_names=self._secret_names,
            workdir=home,
            lifetime=max(0.001, self.remaining),
            # E2B keeps a command's stdin open when its client goes, so the guest could not tell.
            lease=False,
        )
        return await GuestChannel.open(transport, init)

    async def _is_dead(self, mark: str, channel: GuestChannel) -> bool:
        script = resources.files("sandboxio_e2b.inside").joinpath("settled.py").read_text()
        command = Command(
            argv=("python3", "-I", "-S", "-c", script, str(channel.guest_pid), mark),
            env={},
            cwd=None,
            stdin=b"",
            keep_stdin_open=False,
            timeout=SETTLE_BOUND,
        )
        process = await GuestSandbox(channel).start(command)
        while await process.receive() is not None:
            pass
        return (await process.wait()).exit_code == 0

    async def close(self, *, cut: bool) -> None:
        """Let go of the connection; with ``cut``, end what was started over it."""
        self._closed = True
        if self.link is not None:
            if cut:
                await self._bury(self.link)
            try:
                async with asyncio.timeout(CUT_BOUND):
                    await self.link.close()
            except (SandboxError, TimeoutError):
                return  # it is of no use any more in any case
