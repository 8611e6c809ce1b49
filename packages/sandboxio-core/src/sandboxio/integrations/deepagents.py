"""deepagents: a sandbox as the backend of an agent, with its files and its shell.

::

    from deepagents import create_deep_agent
    from sandboxio.integrations.deepagents import SbxBackend

    with sandboxio.create_sync("local://", timeout=600) as sandbox:
        agent = create_deep_agent(model=model, backend=SbxBackend(sandbox))
        agent.invoke({"messages": [{"role": "user", "content": "Write and test a sort."}]})
"""

from __future__ import annotations

from .._api.sync_sandbox import Sandbox
from .._engine.validation import check_timeout
from ..errors import FileSystemError, PathNotFound, SandboxError
from ._model_text import explain, missing
from ._model_tools import CALL_TIMEOUT, check_blocking

try:
    from deepagents.backends.protocol import (
        FILE_NOT_FOUND,
        INVALID_PATH,
        IS_DIRECTORY,
        PERMISSION_DENIED,
        ExecuteResponse,
        FileDownloadResponse,
        FileUploadResponse,
    )
    from deepagents.backends.sandbox import BaseSandbox
except ImportError as error:
    raise missing("deepagents", "deepagents", error) from error

__all__ = ["SbxBackend"]

ERROR_LIMIT = 100_000  # characters of what a failed command wrote that its error repeats


class SbxBackend(BaseSandbox):
    """The backend of a deep agent, over a sandbox of `create_sync`, which it never closes.

    ``timeout`` is the seconds for a command for which the agent asks for no other; none is unbounded.
    """

    def __init__(self, sandbox: Sandbox, *, timeout: float = CALL_TIMEOUT) -> None:
        self._sandbox = check_blocking(sandbox, "deepagents")
        self._timeout = check_timeout(timeout)

    @property
    def id(self) -> str:
        """The id of the sandbox."""
        return self._sandbox.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a shell command; an error of the sandbox is output that says so, without exit code."""
        seconds = self._timeout if timeout is None else timeout
        try:
            done = self._sandbox.run(command, timeout=seconds)
        except SandboxError as error:
            return ExecuteResponse(explain(error, ERROR_LIMIT), truncated=True)
        return ExecuteResponse(done.stdout + done.stderr, exit_code=done.exit_code)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files, and the folders above them; each answers for itself."""
        return [FileUploadResponse(path, self._upload(path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files; each answers for itself."""
        return [self._download(path) for path in paths]

    def _upload(self, path: str, data: bytes) -> str | None:
        try:
            if not path.startswith("/"):
                return INVALID_PATH
            self._sandbox.files.mkdir(path.rpartition("/")[0] or "/", parents=True)
            self._sandbox.files.write(path, data)
        except SandboxError as error:
            return self._in_their_words(path, error)
        return None

    def _download(self, path: str) -> FileDownloadResponse:
        try:
            if not path.startswith("/"):
                return FileDownloadResponse(path, error=INVALID_PATH)
            return FileDownloadResponse(path, self._sandbox.files.read(path))
        except SandboxError as error:
            return FileDownloadResponse(path, error=self._in_their_words(path, error))

    def _in_their_words(self, path: str, error: SandboxError) -> str:
        """Return the word that deepagents has for an error, or the error itself if it has none."""
        if isinstance(error, PathNotFound):
            return FILE_NOT_FOUND
        if not isinstance(error, FileSystemError):
            return explain(error, ERROR_LIMIT)
        try:
            return IS_DIRECTORY if self._sandbox.files.stat(path).is_dir else PERMISSION_DENIED
        except SandboxError:
            return PERMISSION_DENIED
