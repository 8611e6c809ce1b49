"""Our backends as sandboxes of the OpenAI Agents SDK: its client."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable

from agents.sandbox import Manifest
from agents.sandbox.session import SandboxSession, SandboxSessionState
from agents.sandbox.session.sandbox_client import BaseSandboxClient
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot

from ..._engine.validation import check_timeout
from ...errors import ConfigurationError
from ...protocols import AsyncSandbox
from .._model_tools import CALL_TIMEOUT
from .session import SbxSandboxSession
from .state import SbxSandboxClientOptions, SbxSandboxSessionState

__all__ = ["SbxSandboxClient"]

THEIR_ROOT = "/workspace"
"""What a manifest has for its root when nothing else is said. Few of our sandboxes may make it, so
it means the working directory of the sandbox."""


class SbxSandboxClient(BaseSandboxClient[SbxSandboxClientOptions | None]):
    """A sandbox client whose sessions are sandboxes of ours, each ended with its session.

    Args:
        create: Makes a sandbox: ``functools.partial(sandboxio.create, "docker://", timeout=3600)``.
            Its policy, caps and lifetime are those of every session.
        timeout: Seconds for a command for which the SDK asks for no other.

    A session that is resumed gets a new sandbox, with the files of its snapshot if it has one: the
    one from before ended with its session, or with the process that had made it.
    """

    backend_id = "sandboxio"
    supports_default_options = True

    def __init__(
        self, create: Callable[[], Awaitable[AsyncSandbox]], *, timeout: float = CALL_TIMEOUT
    ) -> None:
        self._create = create
        self._timeout = check_timeout(timeout)

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: SbxSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """Make a session in a new sandbox."""
        manifest = self._validate_manifest_for_create(manifest or Manifest())
        if any(grant.host_path is not None for grant in manifest.extra_path_grants):
            raise ConfigurationError(
                "The manifest grants a path of the host, and a sandbox shows none.",
                hint="Copy what is needed with an entry of the manifest, such as LocalDir.",
            )
        session_id = uuid.uuid4()
        state = SbxSandboxSessionState(
            session_id=session_id,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(session_id)),
        )
        return await self._session(state)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Make a session like one from before, in a new sandbox."""
        if not isinstance(state, SbxSandboxSessionState):
            raise ConfigurationError(f"{type(state).__name__} is the state of another client.")
        state.assert_path_grants_rebound()
        return await self._session(state.model_copy(update={"workspace_root_ready": False}))

    async def _session(self, state: SbxSandboxSessionState) -> SandboxSession:
        sandbox = await self._create()
        try:
            if state.manifest.root == THEIR_ROOT:
                where = (await sandbox.run(["pwd"])).raise_for_status().stdout.strip()
                state.manifest = state.manifest.model_copy(update={"root": where})
        except BaseException:
            await sandbox.kill()
            raise
        return self._wrap_session(SbxSandboxSession(sandbox, state, self._timeout))

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """End the sandbox of a session. May be called again."""
        await session.shutdown()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """Return the state of a session from what was stored of it."""
        return self._deserialize_session_state_payload(payload, SbxSandboxSessionState)
