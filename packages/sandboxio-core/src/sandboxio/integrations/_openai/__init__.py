"""Our backends as sandboxes of the OpenAI Agents SDK; public through ``openai_agents``."""

from __future__ import annotations

from .._model_text import missing

try:
    import agents.sandbox as _agents_sandbox
except ImportError as error:
    raise missing("openai-agents", "openai-agents", error) from error

del _agents_sandbox
