"""A live container whose image has no Python, and therefore no guest."""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sandboxio.errors import ProviderError, SandboxGone
from sandboxio.models import AppliedPolicy, Capability

from ._ending import Ending
from ._exec_files import ExecFiles
from ._exec_process import no_process
from ._sandbox import CAPABILITIES, CappedProcess, Container

if TYPE_CHECKING:
    import socket

    from sandboxio.spi import Command, ProcessDriver

    from ._exec_host import ExecHost

__all__ = ["EXEC_CAPABILITIES", "ExecSandbox"]

EXEC_CAPABILITIES = CAPABILITIES & ~Capability.RUN_CODE


class ExecSandbox(ExecFiles):
    """A `SandboxDriver` that makes an exec of everything."""

    def __init__(
        self,
        container: Container,
        host: ExecHost,
        *,
        env: Mapping[str, str],
        secrets: tuple[str, ...],
        remaining: float,
        ending: Ending,
        lease: socket.socket | None,
    ) -> None:
        super().__init__(host)
        self._container = container
        self._env = dict(env)
        self.secrets = secrets
        self._ends_at = time.monotonic() + remaining
        self._ending = ending
        self._lease = lease

    @property
    def id(self) -> str:
        """The container's id."""
        return self._container.id

    @property
    def native(self) -> object:
        """The SDK's ``Container``."""
        return self._container.native

    @property
    def capabilities(self) -> Capability:
        """What it can do."""
        return EXEC_CAPABILITIES

    @property
    def policy(self) -> AppliedPolicy:
        """What is in force."""
        return self._container.policy

    @property
    def workdir(self) -> str:
        """Where relative paths start."""
        return self._host.workdir

    @property
    def remaining(self) -> float:
        """Seconds of lifetime left."""
        return max(0.0, self._ends_at - time.monotonic())

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command."""
        if self._ending.come:
            raise SandboxGone("The sandbox has ended.")
        before = await self._container.counts()
        command = replace(command, env={**self._env, **command.env})
        try:
            process = await self._host.start(command)
        except ProviderError as error:
            # The runtime's own words for that differ from time to time.
            now = await self._container.counts()
            if now.process_refused > before.process_refused:
                raise no_process() from error
            await self._host.raise_if_it_ends()
            raise
        return CappedProcess(process, self._container, before)

    async def alive(self) -> bool:
        """Ask the engine whether the container still runs."""
        return await self._container.exists()

    async def terminate(self) -> None:
        """Remove the container."""
        try:
            await self._container.engine.remove(self._container.id)
        except ProviderError:
            # It was refused: the sandbox is as it was, and can be asked to end again. If nobody does,
            # its lease ends with this object.
            for sock in (self._ending, self._lease):
                if sock is not None:
                    weakref.finalize(self, sock.close)
            raise
        except BaseException:
            self._close()
            raise
        self._close()

    async def detach(self) -> None:
        """Leave the container running."""
        self._close()

    def _close(self) -> None:
        self._ending.close()
        if self._lease is not None:
            self._lease.close()
