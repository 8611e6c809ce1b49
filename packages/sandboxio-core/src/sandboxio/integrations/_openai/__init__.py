"""Our backends as sandboxes of the OpenAI Agents SDK; public through ``openai_agents``."""
