"""What the OpenAI Agents SDK stores of a session, and what it lets its user choose: nothing of ours."""

from __future__ import annotations

from typing import Literal

from agents.sandbox.session import SandboxSessionState
from agents.sandbox.session.sandbox_client import BaseSandboxClientOptions

__all__ = ["SbxSandboxClientOptions", "SbxSandboxSessionState"]


class SbxSandboxClientOptions(BaseSandboxClientOptions):
    """Nothing to choose: what a sandbox is like, who creates it has decided."""

    type: Literal["sandboxio"] = "sandboxio"  # pyright: ignore[reportIncompatibleVariableOverride]


class SbxSandboxSessionState(SandboxSessionState):
    """No more than what is stored of every session: a stored sandbox id could name somebody else's."""

    type: Literal["sandboxio"] = "sandboxio"  # pyright: ignore[reportIncompatibleVariableOverride]
