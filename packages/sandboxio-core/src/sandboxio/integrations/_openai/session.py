"""A session of the OpenAI Agents SDK in a sandbox of ours."""

from __future__ import annotations

import io
from pathlib import Path

from agents.sandbox import ExecResult, ExecTimeoutError, User
from agents.sandbox.session import BaseSandboxSession
from agents.sandbox.session.runtime_helpers import (
    RESOLVE_WORKSPACE_PATH_HELPER,
    RuntimeHelperScript,
)

from ...errors import ExecutionTimeout, SandboxError
from ...protocols import AsyncSandbox
from .._model_text import explain
from .state import SbxSandboxSessionState
from .workspace import pack, read_file, unpack, write_file

__all__ = ["SbxSandboxSession"]

ERROR_LIMIT = 20_000  # characters of what a failed command wrote that its error repeats

NOT_RUN = 125
"""The exit code of `env`, `timeout` and `docker run` for "it was us, not your command"."""


class SbxSandboxSession(BaseSandboxSession):
    r"""A session in a sandbox, which `shutdown` ends. Made by `SbxSandboxClient`.

    It has one user, and neither ports nor a PTY. Output that is not UTF-8 is shown as ``\xNN``. An
    error of the sandbox is a command that ended with 125 and says on stderr what to do: for an
    exception the SDK would end the whole run, and its model would never read it.
    """

    def __init__(
        self, sandbox: AsyncSandbox, state: SbxSandboxSessionState, timeout: float
    ) -> None:
        self._sandbox = sandbox
        self.state = state
        self._timeout = timeout

    async def _prepare_backend_workspace(self) -> None:
        await self._sandbox.files.mkdir(self.state.manifest.root, parents=True)

    async def _shutdown_backend(self) -> None:
        await self._sandbox.kill()

    def _runtime_helpers(self) -> tuple[RuntimeHelperScript, ...]:
        return (RESOLVE_WORKSPACE_PATH_HELPER,)

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        # Asked inside, where links are followed: one that leads out of the workspace is refused.
        return await self._validate_remote_path_access(path, for_write=for_write)

    async def running(self) -> bool:
        """Whether the sandbox answers."""
        return (await self._exec_internal("true")).ok()

    async def _exec_internal(
        self, *command: str | Path, timeout: float | None = None
    ) -> ExecResult:
        argv = [str(word) for word in command]
        seconds = self._timeout if timeout is None else timeout
        where = self.state.manifest.root if self.state.workspace_root_ready else None
        env = await self.state.manifest.environment.resolve()
        try:
            done = await self._sandbox.run(argv, timeout=seconds, cwd=where, env=env)
        except ExecutionTimeout as error:
            raise ExecTimeoutError(command=argv, timeout_s=seconds, cause=error) from error
        except SandboxError as error:
            text = explain(error, ERROR_LIMIT)
            return ExecResult(stdout=b"", stderr=text.encode(), exit_code=NOT_RUN)
        return ExecResult(
            stdout=done.stdout.encode(), stderr=done.stderr.encode(), exit_code=done.exit_code
        )

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        """Return a file of the workspace."""
        return await read_file(self._sandbox, await self._check_read_with_exec(path, user=user))

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        """Write a file of the workspace, and make the folders above it."""
        where = await self._check_write_with_exec(path, user=user)
        await write_file(self._sandbox, where, data)

    async def persist_workspace(self) -> io.IOBase:
        """Return the workspace as a tar archive."""
        skip = self._persist_workspace_skip_relpaths()
        return await pack(self._sandbox, self._workspace_root_path(), skip, self._timeout)

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Fill the workspace from a tar archive."""
        await unpack(self._sandbox, self._workspace_root_path(), data, self._timeout)
